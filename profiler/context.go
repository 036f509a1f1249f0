package profiler

import (
	"context"
	"sync/atomic"
	"time"
)

// A mark is all that connprof keeps in a caller's context: one key, one look-up on the hot path.
type mark struct {
	asked     int64        // atomically, but by who makes the mark: an Instant, taken by whoever comes first
	staleIdle atomic.Int64 // the longest idle time of the dead connections that the call has met
	dead      atomic.Int32 // how many these are
	counted   bool         // among those who wait at the asker's pool, until it is taken; set before anybody else sees the mark
	sink      Sink
	asker     *Asker
}

type (
	markKey struct{}
	connKey struct{}
)

// marked is a context and its mark in one, so that a call costs one allocation.
type marked struct {
	context.Context
	mark
}

func (m *marked) Value(key any) any {
	if _, ok := key.(markKey); ok {
		return &m.mark
	}
	return m.Context.Value(key)
}

// marks says that some context carries a mark, sinks that some mark carries a Sink. Programs that never make one never look.
var marks, sinks atomic.Bool

func markOf(ctx context.Context) *mark {
	if !marks.Load() || ctx == nil {
		return nil
	}
	return findMark(ctx)
}

func findMark(ctx context.Context) *mark {
	if m, ok := ctx.(*marked); ok {
		return &m.mark
	}
	m, _ := ctx.Value(markKey{}).(*mark)
	return m
}

// WithSink returns a context whose operations, and the creates they cause, are also reported to s: like httptrace.WithClientTrace, for
// this request only. The sinks of a surrounding WithSink keep receiving. It panics if s is nil.
func WithSink(ctx context.Context, s Sink) context.Context {
	if s == nil {
		panic("profiler: WithSink: nil Sink")
	}
	if outer := markOf(ctx); outer != nil && outer.sink != nil {
		s = both{outer.sink, s}
	}
	sinks.Store(true)
	marks.Store(true)
	return &marked{Context: ctx, mark: mark{sink: s}}
}

// Asked returns a context that says that the caller asks its pool for a connection now. The first operation (or create) under it takes
// the mark and so knows its wait, and on how many connections it was tried; use one a call. pool.DB does this by itself. It costs one
// reading of the clock and one allocation.
func Asked(ctx context.Context) context.Context { return askedBy(nil, ctx) }

func askedBy(a *Asker, ctx context.Context) context.Context {
	m := &marked{Context: ctx}
	if m.asker = a; a != nil {
		if to := a.pool.Load(); to != nil && to.p.whole.Load() {
			m.counted = true
			to.now.waiting.begin()
			if !to.now.asked.Load() {
				to.now.asked.Store(true)
			}
		}
	}
	if sinks.Load() {
		if outer := markOf(ctx); outer != nil {
			m.sink = outer.sink
		}
	}
	m.asked = int64(Now())
	if !marks.Load() {
		marks.Store(true)
	}
	return m
}

// take returns when the caller asked, once; the zero Instant if it is not known or was taken already.
func (m *mark) take() Instant {
	if m == nil || atomic.LoadInt64(&m.asked) == 0 { // a context that many share: no write to what they share
		return 0
	}
	asked := Instant(atomic.SwapInt64(&m.asked, 0))
	if asked.Known() && m.counted {
		m.asker.pool.Load().now.waiting.end()
	}
	return asked
}

// giveBack undoes a take, unless another call has marked the context anew.
func (m *mark) giveBack(asked Instant) {
	if m != nil && atomic.CompareAndSwapInt64(&m.asked, 0, int64(asked)) && m.counted {
		m.asker.pool.Load().now.waiting.begin()
	}
}

// met notes that the call met a dead connection.
func (m *mark) met(idle time.Duration) {
	if m == nil {
		return
	}
	m.dead.Add(1)
	if int64(idle) > m.staleIdle.Load() {
		m.staleIdle.Store(int64(idle))
	}
}

// both is the Sink of nested WithSinks, the outer one first. Profiler.call looks into it, so that a panic of one does not cost the other
// its event.
type both [2]Sink

func (b both) Record(ctx context.Context, e Event) {
	b[0].Record(ctx, e)
	b[1].Record(ctx, e)
}

// NewContext returns a context that carries c to the dialer: how the one who makes a connection and the one who dials it meet. A nil c is
// carried as none.
func NewContext(ctx context.Context, c *Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the Conn that the dial under ctx is for, nil if there is none, or no ctx.
func FromContext(ctx context.Context) *Conn {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

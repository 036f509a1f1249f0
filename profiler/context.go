package profiler

import (
	"context"
	"sync/atomic"
)

// A mark is all that connprof keeps in a caller's context: one key, one look-up on the hot path.
type mark struct {
	asked atomic.Int64 // an Instant, taken by whoever comes first
	sink  Sink
}

type (
	markKey struct{}
	connKey struct{}
)

// marks says that some context carries a mark. Programs that never make one never look.
var marks atomic.Bool

func markOf(ctx context.Context) *mark {
	if !marks.Load() || ctx == nil {
		return nil
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
	marks.Store(true)
	return context.WithValue(ctx, markKey{}, &mark{sink: s})
}

// Asked returns a context that says that the caller asks its pool for a connection now. The first operation (or create) under it takes
// the mark and so knows its wait; use one a call. pool.DB does this by itself.
func Asked(ctx context.Context) context.Context {
	m := &mark{}
	if outer := markOf(ctx); outer != nil {
		m.sink = outer.sink
	}
	m.asked.Store(int64(Now()))
	marks.Store(true)
	return context.WithValue(ctx, markKey{}, m)
}

// take returns when the caller asked, once; the zero Instant if it is not known or was taken already.
func (m *mark) take() Instant {
	if m == nil {
		return 0
	}
	if m.asked.Load() == 0 { // a context that many share: no write to what they share
		return 0
	}
	return Instant(m.asked.Swap(0))
}

// giveBack undoes a take, unless another call has marked the context anew.
func (m *mark) giveBack(asked Instant) {
	if m != nil {
		m.asked.CompareAndSwap(0, int64(asked))
	}
}

// both is the Sink of nested WithSinks, the outer one first. Profiler.call looks into it, so that a panic of one does not cost the other
// its event.
type both [2]Sink

func (b both) Record(ctx context.Context, e Event) {
	b[0].Record(ctx, e)
	b[1].Record(ctx, e)
}

// NewContext returns a context that carries c to the dialer: how the one who makes a connection and the one who dials it meet.
func NewContext(ctx context.Context, c *Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the Conn that the dial under ctx is for, nil if there is none.
func FromContext(ctx context.Context) *Conn {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

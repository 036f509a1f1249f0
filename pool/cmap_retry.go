package pool

import (
	"context"
	"reflect"
	"time"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// A driver repeats a read that failed on the network: at once, on the same goroutine, under the same context and by the same name, on
// another connection, and unless it was told otherwise once. Two such commands are one operation. That is known only where the driver is
// bound to repeat, so that only then is a failed attempt held: a write's repetition depends on the server and the session, an aggregate's
// on its stages, and what runs in a transaction is not repeated; these are reported attempt by attempt. One thing can't be
// told apart: a read whose repetition found no server, or that ran in a transaction, from the same command in the caller's next call under
// the same context on the same goroutine; the two then count as one operation.
type heldOp struct {
	op    profiler.Op
	ctx   context.Context
	err   error
	name  string
	g     uint64
	tries int
	at    profiler.Instant
}

// maxHeld bounds the attempts that wait to be repeated; beyond it they are reported as what they are.
const maxHeld = 64

// repeats says that the driver is bound to send the command again.
func (m *CMAP) repeats(ctx context.Context, e *CommandEvent, tries int) bool {
	if !m.RetryReads || !e.Network || tries > 0 && !m.unlimited(ctx) || ctx != nil && ctx.Err() != nil {
		return false
	}
	switch e.Name {
	case "find", "count", "distinct", "listCollections", "listDatabases", "listIndexes":
		return true
	}
	return false
}

func (m *CMAP) unlimited(ctx context.Context) bool {
	if m.RetryUnlimited || !m.RetryWithinDeadline || ctx == nil {
		return m.RetryUnlimited
	}
	_, ok := ctx.Deadline()
	return ok
}

// hold keeps a failed attempt for the one that repeats it, and says whether it does.
func (m *CMAP) hold(ctx context.Context, e *CommandEvent, op *profiler.Op, tries int, now profiler.Instant) bool {
	if !m.repeats(ctx, e, tries) {
		return false
	}
	g := goid.Get()
	m.giveUp(func(h *heldOp) bool { return h.g == g || m.expired(h, now) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) >= maxHeld {
		return false
	}
	op.Hold(now)
	m.held = append(m.held, &heldOp{*op, ctx, e.Err, e.Name, g, tries, now})
	m.holding.Store(int32(len(m.held)))
	return true
}

// repeated is the attempt that this command repeats, nil if there is none. An attempt whose goroutine runs another command was given up.
func (m *CMAP) repeated(ctx context.Context, name string) (found *heldOp) {
	g := goid.Get()
	now := profiler.Now()
	m.giveUp(func(h *heldOp) bool {
		return h.g == g && (h.name != name || !same(h.ctx, ctx)) || h.g != g && m.expired(h, now)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range m.held {
		if h.g == g {
			m.held = append(m.held[:i], m.held[i+1:]...)
			m.holding.Store(int32(len(m.held)))
			return h
		}
	}
	return nil
}

// notRepeated gives up what this goroutine's failed attempt waits for: the driver got no other connection.
func (m *CMAP) notRepeated() {
	if m.holding.Load() > 0 {
		g := goid.Get()
		m.giveUp(func(h *heldOp) bool { return h.g == g })
	}
}

// giveUp reports the held attempts that are over: their goroutine went on to something else, or the time to look for a server is up.
func (m *CMAP) giveUp(over func(*heldOp) bool) {
	if m.holding.Load() == 0 {
		return
	}
	var all []*heldOp
	m.mu.Lock()
	kept := m.held[:0]
	for _, h := range m.held {
		if over(h) {
			all = append(all, h)
		} else {
			kept = append(kept, h)
		}
	}
	clear(m.held[len(kept):])
	m.held = kept
	m.holding.Store(int32(len(kept)))
	m.mu.Unlock()
	for _, h := range all {
		h.op.GiveUp(h.ctx, h.err)
	}
}

func (m *CMAP) expired(h *heldOp, now profiler.Instant) bool {
	return now.Sub(h.at) > m.SelectionTimeout+time.Minute || h.ctx != nil && h.ctx.Err() != nil
}

// same tells whether two contexts are one, without a panic for types that can't be compared.
func same(a, b context.Context) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	ta := reflect.TypeOf(a)
	return ta == reflect.TypeOf(b) && ta.Comparable() && (ta.Kind() == reflect.Pointer || reflect.ValueOf(a).Comparable()) && a == b
}

package pool

import (
	"bytes"
	"context"
	"reflect"
	"runtime"
	"strings"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// A driver repeats what failed on the network, or with one of the codes of the specification "Retryable Reads" or "Retryable Writes": on the
// same goroutine, under the same context and by the same name, on another connection. Two such commands are one operation. A failed
// attempt is held for the one that repeats it where that is known:
//
//   - A read is repeated if the client's options say so: find, count, distinct and the lists, outside a transaction, not sent by RunCommand.
//     The next such command is its repetition, if its checkout began before the driver's search for a server was over.
//   - A write is repeated under the number that its session gave it (txnNumber), which shows in the start of a command only.
//
// An aggregate may write, a session of the caller's may be in a transaction, and without the start of a command nothing tells whether a
// write had a number: what is then perhaps repeated is not held, and the attempts of it and of what perhaps repeats it are unknown.
//
// The caller's operation is not over while its attempt is held, so that the attempt shows when the operation ends. If the driver finds no
// server, no event tells that: the attempt then shows with the next event of the client, or the next report, after the context's end or
// SelectionTimeout.
type heldOp struct {
	op     profiler.Op
	ctx    context.Context
	err    error
	name   string
	g      uint64
	tries  int
	at     profiler.Instant // when the driver began to look for another connection
	begun  bool             // it asks a pool
	maybe  bool             // reported already: whether the next one repeats it is not known
	number number           // a write's
}

// number is what a retryable write keeps when it is repeated: its session, and its number in there; 0 for none.
type number struct {
	session [16]byte
	txn     int64
}

// maxHeld bounds the attempts that wait to be repeated; beyond it they are reported as what they are.
const maxHeld = 64

type repetition uint8

const (
	never repetition = iota
	perhaps
	surely
)

// repeats tells whether the driver is to send a command again.
func (m *CMAP) repeats(ctx context.Context, e *CommandEvent, s *started, tries int) repetition {
	if ctx != nil && ctx.Err() != nil || tries > 0 && !m.unlimited(ctx) {
		return never
	}
	var may bool
	switch e.Name {
	case "find", "count", "distinct", "listCollections", "listDatabases", "listIndexes":
		if may = m.RetryReads && e.RetryableRead && !s.transaction && !runsCommand(); may && (s.known || !e.Session) {
			return surely
		}
	case "insert", "update", "delete", "findAndModify", "bulkWrite":
		may = m.RetryWrites && e.RetryableWrite && !s.transaction
		if s.known {
			if may && s.number.txn != 0 {
				return surely
			}
			may = false
		}
	case "aggregate":
		may = m.RetryReads && e.RetryableRead && !s.transaction
	case "commitTransaction", "abortTransaction": // the caller may repeat them, too
		may = e.RetryableWrite
	}
	if may || e.Overloaded {
		return perhaps
	}
	return never
}

func (m *CMAP) unlimited(ctx context.Context) bool {
	if m.RetryUnlimited || !m.RetryWithinDeadline || ctx == nil {
		return m.RetryUnlimited
	}
	_, ok := ctx.Deadline()
	return ok
}

// runsCommand tells whether the caller sent the command itself: the driver repeats none of these.
func runsCommand() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/mongo.(*Database).RunCommand") {
			return true
		}
		if !more {
			return false
		}
	}
}

// hold keeps a failed attempt for the one that repeats it, and says whether it does.
func (m *CMAP) hold(ctx context.Context, e *CommandEvent, s *started, op *profiler.Op, tries int, now profiler.Instant) bool {
	r := m.repeats(ctx, e, s, tries)
	if r == never {
		return false
	}
	g := goid.Get()
	m.giveUp(func(h *heldOp) bool { return h.g == g || m.expired(h, now) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) >= maxHeld {
		op.AttemptsUnknown()
		return false
	}
	h := &heldOp{ctx: ctx, err: e.Err, name: e.Name, g: g, tries: tries, at: now, maybe: r == perhaps, number: s.number}
	if h.maybe {
		op.AttemptsUnknown()
	} else {
		op.Hold(now)
		h.op = *op
	}
	m.held = append(m.held, h)
	m.holding.Store(int32(len(m.held)))
	return !h.maybe
}

// repeated is the attempt that this command repeats, or perhaps repeats, nil if there is none. An attempt whose goroutine runs another
// command was given up.
func (m *CMAP) repeated(ctx context.Context, e *CommandEvent, s *started) (found *heldOp) {
	g := goid.Get()
	now := profiler.Now()
	var untold heldOp
	m.giveUp(func(h *heldOp) bool {
		if h.g != g {
			return m.expired(h, now)
		}
		if !h.begun || h.name != e.Name || !same(h.ctx, ctx) {
			return true
		}
		if !s.known && h.number.txn != 0 { // whether it has that number was not told
			h.op.AttemptsUnknown()
			untold.maybe, found = true, &untold
			return true
		}
		return h.number != s.number
	})
	if found != nil {
		return found
	}
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

// untied ends what this goroutine holds, now that it ran a command on a connection that is not known: that was perhaps the repetition.
func (m *CMAP) untied(ctx context.Context, e *CommandEvent) {
	if m.holding.Load() == 0 {
		return
	}
	g := goid.Get()
	m.giveUp(func(h *heldOp) bool {
		if h.g != g {
			return false
		}
		if h.begun && h.name == e.Name && same(h.ctx, ctx) {
			h.op.AttemptsUnknown()
		}
		return true
	})
}

// asking notes that this goroutine asks a pool: for what it holds, if the driver was still looking for a server.
func (m *CMAP) asking() {
	if m.holding.Load() == 0 {
		return
	}
	g := goid.Get()
	now := profiler.Now()
	m.giveUp(func(h *heldOp) bool { return m.expired(h, now) })
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.held {
		if h.g == g {
			h.begun = true
		}
	}
}

// notRepeated gives up what this goroutine's failed attempt waits for: the driver got no connection, or gave it back unused. A driver that
// repeats without limit goes on.
func (m *CMAP) notRepeated(last bool) {
	if m.holding.Load() == 0 {
		return
	}
	g := goid.Get()
	now := profiler.Now()
	m.giveUp(func(h *heldOp) bool {
		if h.g != g || !h.begun {
			return false
		}
		if last || !m.unlimited(h.ctx) {
			return true
		}
		h.begun, h.at = false, now
		return false
	})
}

// giveUp reports the held attempts that are over: their goroutine went on to something else, or the driver has found no server.
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

// expired says that the driver can't be looking for a server any more. What it has begun ends with an event.
func (m *CMAP) expired(h *heldOp, now profiler.Instant) bool {
	return !h.begun && (now.Sub(h.at) > m.SelectionTimeout || h.ctx != nil && h.ctx.Err() != nil)
}

// same tells whether two contexts are one, without a panic for types that can't be compared.
func same(a, b context.Context) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	ta := reflect.TypeOf(a)
	return ta == reflect.TypeOf(b) && ta.Comparable() && (ta.Kind() == reflect.Pointer || reflect.ValueOf(a).Comparable()) && a == b
}

// labelled tells whether a reply that is no error has the label that makes a driver repeat a write: a write concern's error is part of a
// successful reply.
func labelled(reply []byte) (found bool) {
	walk(reply, func(kind byte, key, value []byte) bool {
		if kind == 4 && string(key) == "errorLabels" {
			found = bytes.Contains(value, []byte("\x00RetryableWriteError\x00"))
			return false
		}
		return true
	})
	return found
}

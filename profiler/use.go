package profiler

import (
	"context"
	"sync/atomic"
	"time"
)

// use is the state of a connection between its checkouts. The pool has one user at a time, whose lock orders all access; only ops is
// also read by reports.
type use struct {
	ops      atomic.Uint64
	since    Instant // begin of the use
	returned Instant // end of the last use, zero while in use
	lastEnd  Instant // end of the last operation

	idle         time.Duration // before this use; its first operation takes it
	asked        Instant       // when this use's caller asked
	wait, queued time.Duration
	opsNow       uint32 // operations in this use
	waitKnown    bool   // until this use's first operation took it
}

// waited notes the wait of the caller who got the connection at the instant at; making is the part of it in which the connection was
// being made.
func (u *use) waited(asked, at Instant, making time.Duration) {
	u.asked, u.waitKnown = asked, true
	u.wait = max(0, at.Sub(asked))
	u.queued = max(0, u.wait-making)
}

// ran notes operation number n, which took what was known of the way to it.
func (u *use) ran(n uint64) {
	u.ops.Store(n)
	u.opsNow++
	u.idle, u.waitKnown = 0, false
}

// forget drops what is known of this use: recording is off, and what begins in such a gap must not end after it.
func (u *use) forget() {
	u.since, u.returned, u.idle, u.waitKnown = 0, 0, 0, false
}

// CheckedOut says that the pool gave the connection to a caller at the instant at; asked is when the caller asked, zero if not known
// (then ctx may carry Asked's mark).
func (c *Conn) CheckedOut(ctx context.Context, asked, at Instant) {
	if c == nil {
		return
	}
	u := &c.use
	if c.p.off.Load() {
		u.forget()
		return
	}
	if u.returned.Known() {
		u.idle = max(0, at.Sub(u.returned))
		c.s.record(MeasureIdle, OK, u.idle)
	}
	u.since, u.returned, u.opsNow = at, 0, 0
	if !asked.Known() {
		asked = markOf(ctx).take()
	}
	if asked.Known() {
		u.waited(asked, at, c.overlap(asked, at))
	}
}

// CheckedIn says that the caller gave the connection back at the instant at. The zero Instant says "just now": if exactly one operation
// ran, its end serves, else the clock is read. A wait that no operation took is forgotten.
func (c *Conn) CheckedIn(at Instant) {
	if c == nil {
		return
	}
	u := &c.use
	if c.p.off.Load() {
		u.forget()
		return
	}
	if !at.Known() {
		if at = u.lastEnd; u.opsNow != 1 || !at.Known() || at < u.since {
			at = Now()
		}
	}
	if u.since.Known() {
		c.s.record(MeasureUse, OK, max(0, at.Sub(u.since)))
	}
	u.since, u.returned, u.waitKnown = 0, at, false
}

// Ops counts the operations that ran on the connection so far.
func (c *Conn) Ops() uint64 {
	if c == nil {
		return 0
	}
	return c.use.ops.Load()
}

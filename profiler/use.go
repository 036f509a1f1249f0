package profiler

import (
	"context"
	"time"
)

// use is the state of a connection between its checkouts. The pool has one user at a time, whose lock orders all access; only holding is
// also read by reports.
type use struct {
	holding  holding
	n        uint64  // operations so far
	since    Instant // begin of the use; zero while it is not known
	returned Instant // end of the last use, zero while in use
	lastEnd  Instant // end of the last operation

	idle         time.Duration // before this use; its first operation takes it
	asked        Instant       // when this use's caller asked
	wait, queued time.Duration
	staleIdle    time.Duration // of the dead connections that this use's caller met before
	opsNow       uint32        // operations in this use
	dead         uint8         // how many dead ones these were
	waitKnown    bool          // until this use's first operation took it
	waitFor      WaitFor
	shown        bool // holding says held or running
	noted        bool // who has the connection (Profiler.Holders)
	unseen       bool // the pool's returns can't be seen: a use ends with its last operation
}

// waited notes the wait of the caller who got the connection at the instant at, and what the caller's mark m knows.
func (c *Conn) waited(m *mark, asked, at Instant) {
	u := &c.use
	making := c.overlap(asked, at)
	u.asked, u.waitKnown = asked, true
	u.wait = max(0, at.Sub(asked))
	u.queued = max(0, u.wait-making)
	switch {
	case making == 0:
		u.waitFor = WaitFree
	case c.create.Caller: // read-only since the hand-over
		u.waitFor = WaitCreate
	default:
		u.waitFor = WaitBackground
	}
	u.dead, u.staleIdle = 0, 0
	if m != nil {
		m.asker.meets(c)
		if n := m.dead.Load(); n > 0 {
			u.dead, u.staleIdle = uint8(min(n, 254)), time.Duration(m.staleIdle.Load())
		}
	}
}

// forget drops what is known of this use: recording is off, and what begins in such a gap must not end after it.
func (u *use) forget() {
	u.since, u.returned, u.idle, u.waitKnown = 0, 0, 0, false
	if u.shown {
		u.shown = false
		u.holding.set(idle, u.n, 0)
	}
}

// begun says that this use began at the instant at, and ends the idle time before it.
func (c *Conn) begun(at Instant) {
	u := &c.use
	returned := u.returned
	u.since, u.returned = at, 0
	if returned.Known() {
		u.idle = max(0, at.Sub(returned))
		c.s.record(MeasureIdle, OK, u.idle)
	}
}

// CheckedOut says that the pool gave the connection to a caller at the instant at; asked is when the caller asked, zero if not known
// (then ctx may carry Asked's mark). A zero at leaves it to the mark whether the clock is read: without one the use begins with its
// first operation, which in a pool that has no other use for a connection is the same instant.
//
// It reports whether it looked for a mark of the caller's (Asked's or WithSink's) and found none. An operation under the very same
// context may then be begun under one that is cheaper to look into, such as context.Background.
func (c *Conn) CheckedOut(ctx context.Context, asked, at Instant) (unmarked bool) {
	if c == nil {
		return false
	}
	u := &c.use
	if c.p.off.Load() {
		u.forget()
		return false
	}
	if u.unseen && u.since.Known() && u.lastEnd.Known() {
		c.CheckedIn(u.lastEnd)
	}
	u.opsNow = 0
	if c.p.Holders {
		c.held()
	}
	if !at.Known() && !asked.Known() && !marks.Load() {
		return false // since stays zero: the first operation sets it
	}
	m := markOf(ctx)
	unmarked = m == nil && marks.Load()
	if !asked.Known() {
		asked = m.take()
	}
	if !at.Known() {
		if !asked.Known() {
			return unmarked // since stays zero: the first operation sets it
		}
		at = Now()
	}
	c.begun(at)
	u.shown = true
	u.holding.set(held, u.n, at)
	if asked.Known() {
		c.waited(m, asked, at)
	}
	return unmarked
}

// AfterDead says that the caller who has just got the connection (CheckedOut, with a known wait) met n dead ones before it, the longest
// of which had been idle for the given time: for pools that have Conn.Stale called without the caller's context.
func (c *Conn) AfterDead(n int, idle time.Duration) {
	if c != nil && c.use.waitKnown && n > 0 {
		c.use.dead, c.use.staleIdle = uint8(min(n, 254)), idle
	}
}

// Checked says that the pool's own check took d that the connection is alive, before it handed it over.
func (c *Conn) Checked(d time.Duration) {
	if c != nil && !c.p.off.Load() {
		c.s.record(MeasureCheck, OK, d)
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
	if u.returned.Known() { // a use that nothing began
		u.waitKnown = false
		return
	}
	if !at.Known() {
		if at = u.lastEnd; u.opsNow != 1 || !at.Known() || at < u.since {
			at = Now()
		}
	}
	since := u.since
	u.since, u.returned, u.waitKnown, u.noted = 0, at, false, false
	if u.shown {
		u.shown = false
		u.holding.set(idle, u.n, at)
	}
	if since.Known() {
		c.s.record(MeasureUse, OK, max(0, at.Sub(since)))
	}
}

// ReturnsUnseen says that the pool will not tell when it gets the connection back: a use then ends with its last operation, and the
// connection is never reported as held idle.
func (c *Conn) ReturnsUnseen() {
	if c != nil {
		c.use.unseen = true
	}
}

// Stale says that the pool, about to give the connection to a caller at the instant at, found it dead, and will look for another. ctx is
// the caller's: its next operation knows what it met, if it carries Asked's mark.
func (c *Conn) Stale(ctx context.Context, at Instant) {
	if c == nil || c.p.off.Load() {
		return
	}
	var idle time.Duration
	if c.use.returned.Known() {
		idle = max(0, at.Sub(c.use.returned))
	}
	c.stale(markOf(ctx), idle)
}

func (c *Conn) stale(m *mark, idle time.Duration) {
	c.s.stale.Add(1)
	if idle > 0 {
		c.s.record(MeasureStaleIdle, OK, idle)
	}
	m.met(idle)
}

// Ops counts the operations that ran on the connection so far.
func (c *Conn) Ops() uint64 {
	if c == nil {
		return 0
	}
	return c.use.holding.ops()
}

// ReturnedAt is when the connection last came back to the pool; zero while it is in use, and where the pool doesn't tell.
func (c *Conn) ReturnedAt() Instant {
	if c == nil {
		return 0
	}
	return c.use.returned
}

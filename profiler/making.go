package profiler

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// Cut charges the time since the last cut, up to at, to phase p. Time before the last cut is charged already, so that an earlier
// at (or the zero Instant) changes nothing: the phases never overlap and always sum to the create.
func (c *Conn) Cut(p Phase, at Instant) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(p, at)
}

func (c *Conn) cutLocked(p Phase, at Instant) {
	if c.stage == finished || !at.Known() || at < c.cursor {
		return
	}
	if p == NoPhase || p >= NumPhases {
		p = Other
	}
	c.create.charge(p, c.cursor.Sub(c.started), at.Sub(c.cursor))
	c.cursor = at
}

// Update runs f on the create while it is being made, under the connection's lock, and not at all after that. f must only fill in facts (phases
// are cut with Cut), must not keep the Create, and must call no method of the connection's.
func (c *Conn) Update(f func(*Create)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != finished {
		f(&c.create)
	}
}

// Attempt adds a connect to the create.
func (c *Conn) Attempt(a Attempt) {
	c.Update(func(cr *Create) {
		if len(cr.Attempts) >= MaxAttempts {
			cr.AttemptsDropped++
			return
		}
		cr.Attempts = append(cr.Attempts, a)
	})
}

// Watch sets who saw the create on the wire. A second dial for the same create replaces the first one's watcher.
func (c *Conn) Watch(w Watcher) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != finished {
		c.watcher = w
		if c.role != RolePool { // what closed was the wire of an earlier dial
			c.closed = 0
		}
	}
}

// Lost says that all that was dialed so far for this create was given up, at the instant at, and that another dial follows: its time,
// other than Hook and Resolve, becomes Attempts. It does nothing if nothing was dialed. The Attempt that had won until then ends here,
// with the Cause that the watcher names, or else with err.
func (c *Conn) Lost(at Instant, err error) {
	if c == nil || !at.Known() {
		return
	}
	c.mu.Lock()
	w := c.watcher
	lost := c.stage != finished && (w != nil || c.create.dialed())
	c.watcher = nil
	c.mu.Unlock()
	if !lost {
		return
	}
	if w != nil {
		w.Settle(at, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage == finished {
		return
	}
	c.cutLocked(Attempts, at)
	cr := &c.create
	reached := cr.Failed
	if cr.Cause != nil {
		err = cr.Cause
	}
	for p := Connect; p < NumPhases; p++ {
		if s := cr.Phases[p]; s.Present {
			if cr.Failed == NoPhase {
				reached = p
			}
			cr.charge(Attempts, s.Begin, s.Duration)
			cr.Phases[p] = Span{}
		}
	}
	for i := len(cr.Attempts) - 1; i >= 0; i-- {
		if a := &cr.Attempts[i]; a.Reached == NoPhase && a.Err == nil {
			a.Duration, a.Reached, a.Err = max(0, c.Since(at)-a.Begin), reached, err
			break
		}
	}
	cr.Failed, cr.Cause, cr.TLS, cr.TCP, cr.Wire = NoPhase, nil, TLSInfo{}, TCPInfo{}, Wire{}
}

// dialed says that a connect took place.
func (cr *Create) dialed() bool {
	for p := Connect; p < Other; p++ {
		if cr.Phases[p].Present {
			return true
		}
	}
	return false
}

// NoCaller is the context of a create that no caller waits for: a nil one.
var NoCaller context.Context

// Ready ends the create well: the connection is handed over. ctx is the caller's if the create ran under it, else NoCaller.
func (c *Conn) Ready(ctx context.Context) { c.finish(ctx, Now(), nil, false) }

// ReadyAlone ends, at the instant at, the create of a connection that nobody handed over: its total is not known.
func (c *Conn) ReadyAlone(at Instant) {
	if !at.Known() {
		at = Now()
	}
	c.finish(noContext, at, nil, true)
}

// Fail ends the create with the driver's error, which is kept as it is. ctx is as for Ready. The failed phase is the one that was named
// by the watcher or by Update; Other where none was.
func (c *Conn) Fail(ctx context.Context, err error) {
	if err == nil {
		err = errFailed
	}
	c.finish(ctx, Now(), err, false)
}

// noContext is that of a create that no caller asked for.
var noContext context.Context

// errFailed stands for the error of a driver that failed without one.
var errFailed = errors.New("profiler: the create failed without an error")

func (c *Conn) finish(ctx context.Context, at Instant, err error, alone bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	w, done := c.watcher, c.stage != making
	c.watcher, c.stage = nil, max(c.stage, ending)
	c.mu.Unlock()
	if done {
		return
	}
	if w != nil {
		w.Settle(at, err)
	}
	m := markOf(ctx)
	c.mu.Lock()
	at = max(at, c.cursor)
	if at > c.cursor {
		c.cutLocked(Other, at)
	}
	cr := &c.create
	cr.Duration = at.Sub(c.started)
	cr.TotalUnknown = cr.TotalUnknown || alone
	cr.Caller = ctx != nil
	if cr.Err = err; err != nil {
		cr.Outcome = classifyIn(ctx, err)
		if cr.Outcome == Canceled && cutByPeer(cr.Cause) && (ctx == nil || ctx.Err() == nil) { // nobody canceled it but the driver itself, for that
			cr.Outcome = Failed
		}
		if cr.Failed == NoPhase || cr.Failed >= NumPhases {
			cr.Failed = Other
		}
		cr.Class = ClassOf(cr)
		if m != nil {
			m.asker.meets(c)
		}
	} else {
		cr.Failed, cr.Cause = NoPhase, nil
		c.readyAt.Store(int64(at))
		c.use.since = at
	}
	if err == nil {
		if asked := m.take(); asked.Known() {
			c.waited(m, asked, at)
		}
	}
	c.stage, c.watcher = finished, nil
	closed := c.closed
	c.mu.Unlock()

	c.s.now.making.end()
	c.s.recordCreate(cr)
	e := &Event{Kind: KindCreate, Conn: c}
	c.p.emit(ctx, m, e)
	c.p.observeCreate(ctx, e)
	if err != nil {
		c.p.live.remove(c)
		c.p.failures.add(c)
	} else if closed != 0 {
		c.p.live.remove(c)
		c.end(Now(), CloseReason(closed-1), nil)
	}
}

// cutByPeer reports whether a connection's first error on the wire was the other side's doing.
func cutByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// overlap is the part of [from, to] in which this connection was being made.
func (c *Conn) overlap(from, to Instant) time.Duration {
	ready := c.ReadyAt()
	if !ready.Known() {
		return 0
	}
	return max(0, min(to, ready).Sub(max(from, c.started)))
}

package profiler

import (
	"context"
	"time"
)

// Cut charges the time since the last cut, up to at, to phase p. Time before the last cut is charged already, so that an earlier
// at changes nothing: the phases never overlap and always sum to the create.
func (c *Conn) Cut(p Phase, at Instant) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(p, at)
}

func (c *Conn) cutLocked(p Phase, at Instant) {
	if c.finished || at < c.cursor {
		return
	}
	c.create.charge(p, c.cursor.Sub(c.started), at.Sub(c.cursor))
	c.cursor = at
}

// Update runs f on the create while it is being made, under the connection's lock. f must only fill in facts; phases are cut with Cut.
func (c *Conn) Update(f func(*Create)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finished {
		f(c.create)
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
	if !c.finished {
		c.watcher = w
	}
}

// Lost says that all that was dialed so far for this create was given up, at the instant at, and that another dial follows: its time,
// other than Hook and Resolve, becomes Attempts. It does nothing if nothing was dialed.
func (c *Conn) Lost(at Instant, err error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	w := c.watcher
	c.mu.Unlock()
	if w == nil {
		return
	}
	w.Settle(at, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return
	}
	c.watcher = nil
	c.cutLocked(Attempts, at)
	cr := c.create
	reached := cr.Failed
	for p := Connect; p < NumPhases; p++ {
		if s := cr.Phases[p]; s.Present {
			if cr.Failed == NoPhase {
				reached = p
			}
			cr.charge(Attempts, s.Begin, s.Duration)
			cr.Phases[p] = Span{}
		}
	}
	if n := len(cr.Attempts); n > 0 {
		a := &cr.Attempts[n-1]
		a.Duration, a.Reached, a.Err = c.Since(at)-a.Begin, reached, err
	}
	cr.Failed, cr.Cause, cr.TLS, cr.TCP, cr.Wire = NoPhase, nil, TLSInfo{}, TCPInfo{}, Wire{}
}

// Ready ends the create well: the connection is handed over. ctx is the caller's if the create ran under it, else nil.
func (c *Conn) Ready(ctx context.Context) { c.finish(ctx, Now(), nil, false) }

// ReadyAlone ends, at the instant at, the create of a connection that nobody handed over: its total is not known.
func (c *Conn) ReadyAlone(at Instant) { c.finish(nil, at, nil, true) }

// Fail ends the create with the driver's error, which is kept as it is. ctx is as for Ready. The failed phase is the one that was named
// by the watcher or by Update; Other where none was.
func (c *Conn) Fail(ctx context.Context, err error) { c.finish(ctx, Now(), err, false) }

func (c *Conn) finish(ctx context.Context, at Instant, err error, alone bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	w, done := c.watcher, c.finished
	c.watcher = nil
	c.mu.Unlock()
	if done {
		return
	}
	if w != nil {
		w.Settle(at, err)
	}
	m := markOf(ctx)
	c.mu.Lock()
	if c.finished {
		c.mu.Unlock()
		return
	}
	at = max(at, c.cursor)
	if at > c.cursor {
		c.cutLocked(Other, at)
	}
	cr := c.create
	cr.Duration = at.Sub(c.started)
	cr.TotalUnknown = cr.TotalUnknown || alone
	cr.Caller = ctx != nil
	if cr.Err = err; err != nil {
		cr.Outcome = classifyIn(ctx, err)
		if cr.Failed == NoPhase {
			cr.Failed = Other
		}
	} else {
		cr.Failed, cr.Cause = NoPhase, nil
		c.readyAt.Store(int64(at))
		c.use.since = at
	}
	c.finished = true
	c.mu.Unlock()

	c.s.recordCreate(cr)
	if err == nil && m.peek().Known() {
		c.use.waited(m.take(), at, c.overlap)
	}
	c.p.emit(ctx, m, Event{Kind: KindCreate, Conn: c})
	if err != nil {
		c.p.live.remove(c)
		c.p.failures.add(c)
	}
}

// overlap is the part of [from, to] in which this connection was being made.
func (c *Conn) overlap(from, to Instant) time.Duration {
	ready := c.ReadyAt()
	if !ready.Known() {
		return 0
	}
	return max(0, min(to, ready).Sub(max(from, c.started)))
}

package profiler

import (
	"context"
	"time"
)

// Op is one running operation: Begin, Responded, End, each told its instant; or Begin and then Skip or Exclude. It is a value for its
// one user, who keeps one copy; the zero Op does nothing. An instant that is not known (zero) stands for now.
type Op struct {
	c            *Conn
	m            *mark
	kind         OpKind
	outcome      Outcome
	waitFor      WaitFor
	dead         uint8
	waitKnown    bool
	quiet        bool // recording is off: only counted
	Prepared     Prepared
	start, first Instant
	asked        Instant
	n            uint64
	idle         time.Duration
	wait, queued time.Duration
	staleIdle    time.Duration
	// Turns, Name, Text and NS are Operation's Turns, Name, Text and Namespace, Prepared its Prepared, Driver and Consumer its rows' times.
	// They may be set until End.
	Turns            int
	Name, Text, NS   string
	Driver, Consumer time.Duration
}

// Begin starts an operation at the instant at, the entry of the caller's call.
func (c *Conn) Begin(ctx context.Context, k OpKind, at Instant) (o Op) {
	if c == nil {
		return o
	}
	u := &c.use
	o.c, o.kind, o.n = c, k, u.n+1
	if c.p.off.Load() {
		o.quiet = true
		return o
	}
	if !at.Known() {
		at = Now()
	}
	o.start = at
	if !u.since.Known() && u.returned.Known() {
		c.begun(at)
	}
	o.idle = u.idle
	u.holding.set(running, u.n, at)
	if m := markOf(ctx); m != nil {
		o.m = m
		if asked := m.take(); asked.Known() {
			c.waited(m, asked, at)
		}
	}
	if u.waitKnown {
		o.asked, o.wait, o.queued, o.waitKnown = u.asked, u.wait, u.queued, true
		o.waitFor, o.dead, o.staleIdle = u.waitFor, u.dead, u.staleIdle
	}
	return o
}

// Started is when the operation began, zero for the zero Op.
func (o *Op) Started() Instant { return o.start }

// Outcome is how the operation went so far.
func (o *Op) Outcome() Outcome { return o.outcome }

// ran uses the operation up: it has its number, and the idle time and the wait that led to it.
func (o *Op) ran(at Instant) {
	c := o.c
	u := &c.use
	u.n = o.n
	u.opsNow++
	u.idle, u.waitKnown = 0, false
	u.holding.set(held, o.n, at)
	if o.waitKnown {
		c.s.record(MeasureWait, OK, o.wait)
		c.s.record(MeasureQueued, OK, o.queued)
	}
}

// Responded says that the first response came at the instant at. Later calls change nothing.
func (o *Op) Responded(ctx context.Context, at Instant, err error) {
	c := o.c
	if c == nil || o.first.Known() {
		return
	}
	if !at.Known() {
		at = Now()
	}
	o.first = at
	o.ran(at)
	if o.quiet {
		return
	}
	if err != nil {
		o.outcome = classifyIn(ctx, err)
	}
	m := MeasureReusedQuery
	if o.n == 1 {
		m = MeasureFirstQuery
	}
	c.s.record(m, o.outcome, at.Sub(o.start))
	if o.idle > 0 {
		c.s.afterIdle(o.idle, o.outcome, at.Sub(o.start))
	}
	if c.p.wants(o.m) {
		c.p.emit(ctx, o.m, Event{Kind: KindFirstResponse, Conn: c, Op: o.operation(0, err)})
	}
}

// Progress says that something happened on the operation's rows at the instant at, so that a long iteration is not taken for a
// connection that is held idle.
func (o *Op) Progress(at Instant) {
	if o.c != nil {
		o.c.use.holding.set(held, o.c.use.n, at)
	}
}

// End says that the operation ended at the instant at with the driver's error: its rows are closed, or it had none. Only the first call
// counts.
func (o *Op) End(ctx context.Context, at Instant, err error) {
	c := o.c
	if c == nil {
		return
	}
	if !at.Known() {
		at = Now()
	}
	if !o.first.Known() {
		o.Responded(ctx, at, err)
	} else if !o.quiet {
		if err != nil && o.outcome == OK {
			o.outcome = classifyIn(ctx, err)
		}
		if o.kind == OpQuery || o.kind == OpBatch || o.kind == OpCopy {
			c.s.record(MeasureRows, o.outcome, at.Sub(o.first))
			if o.Driver+o.Consumer > 0 {
				c.s.rowsDriver.Add(int64(o.Driver))
				c.s.rowsConsumer.Add(int64(o.Consumer))
			}
		}
	}
	if o.Prepared != NotPrepared && !o.quiet {
		c.s.prepared[o.Prepared].Add(1)
	}
	c.use.lastEnd = at
	if c.use.unseen {
		c.use.holding.set(idle, c.use.n, at)
	}
	if !o.quiet && c.p.wants(o.m) {
		c.p.emit(ctx, o.m, Event{Kind: KindOperation, Conn: c, Op: o.operation(at, err)})
	}
	o.c = nil
}

// Skip ends an operation that never was one: the driver declined it (driver.ErrSkip), or the connection was found dead before anything
// reached the server and the pool repeats it on another. dead counts the latter and gives the caller's wait back to its context, for the
// operation that repeats it.
func (o *Op) Skip(dead bool) {
	c := o.c
	if c == nil {
		return
	}
	o.c = nil
	if o.quiet {
		return
	}
	c.use.holding.set(held, c.use.n, o.start)
	if dead {
		c.stale(o.m, o.idle)
		if o.waitKnown {
			c.use.waitKnown = false
			o.m.giveBack(o.asked)
		}
	}
}

// Exclude ends an operation whose duration is no latency, such as an unacknowledged write. It is counted, and it uses up "first".
func (o *Op) Exclude(at Instant) {
	c := o.c
	if c == nil {
		return
	}
	if !at.Known() {
		at = Now()
	}
	if !o.first.Known() {
		o.ran(at)
	}
	c.use.lastEnd = at
	if !o.quiet {
		c.s.excluded.Add(1)
	}
	o.c = nil
}

func (o *Op) operation(end Instant, err error) Operation {
	c := o.c
	p := Operation{
		Kind: o.kind, Name: o.Name, Text: o.Text, Namespace: o.NS, N: o.n, Turns: o.Turns, Prepared: o.Prepared,
		Asked: c.Time(o.asked), Start: c.Time(o.start),
		FirstResponse: c.Time(o.first), End: c.Time(end),
		Wait: o.wait, Queued: o.queued, WaitKnown: o.waitKnown, WaitFor: o.waitFor, Idle: o.idle,
		StaleIdle: o.staleIdle, Driver: o.Driver, Consumer: o.Consumer,
		Err: err, Outcome: o.outcome,
	}
	if o.waitKnown {
		p.Attempts = 1 + int(o.dead)
	}
	return p
}

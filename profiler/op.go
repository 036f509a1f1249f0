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
	waitKnown    bool
	quiet        bool // recording is off: only counted
	start, first Instant
	asked        Instant
	n            uint64
	idle         time.Duration
	wait, queued time.Duration
	// Turns, Name, Text and NS are Operation's Turns, Name, Text and Namespace. They may be set until End.
	Turns          int
	Name, Text, NS string
}

// Begin starts an operation at the instant at, the entry of the caller's call.
func (c *Conn) Begin(ctx context.Context, k OpKind, at Instant) Op {
	if c == nil {
		return Op{}
	}
	u := &c.use
	if c.p.off.Load() {
		return Op{c: c, quiet: true, n: u.ops.Load() + 1}
	}
	if !at.Known() {
		at = Now()
	}
	o := Op{c: c, m: markOf(ctx), kind: k, start: at, n: u.ops.Load() + 1, idle: u.idle}
	if asked := o.m.take(); asked.Known() {
		u.waited(asked, at, c.overlap(asked, at))
	}
	if u.waitKnown {
		o.asked, o.wait, o.queued, o.waitKnown = u.asked, u.wait, u.queued, true
	}
	return o
}

// Started is when the operation began, zero for the zero Op.
func (o *Op) Started() Instant { return o.start }

// ran uses the operation up: it has its number, and the wait that led to it.
func (o *Op) ran() {
	o.c.use.ran(o.n)
	if o.waitKnown {
		o.c.s.record(MeasureWait, OK, o.wait)
		o.c.s.record(MeasureQueued, OK, o.queued)
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
	o.ran()
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
	if c.p.wants(o.m) {
		c.p.emit(ctx, o.m, Event{Kind: KindFirstResponse, Conn: c, Op: o.operation(0, err)})
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
		}
	}
	c.use.lastEnd = at
	if !o.quiet && c.p.wants(o.m) {
		c.p.emit(ctx, o.m, Event{Kind: KindOperation, Conn: c, Op: o.operation(at, err)})
	}
	o.c = nil
}

// Skip ends an operation that never was one: the driver declined it (driver.ErrSkip), or the connection was found dead before anything
// reached the server and the pool repeats it on another. dead counts the latter and gives the caller's wait back to its context, for the
// operation that repeats it.
func (o *Op) Skip(dead bool) {
	if o.c != nil && dead && !o.quiet {
		o.c.s.stale.Add(1)
		if o.waitKnown {
			o.c.use.waitKnown = false
			o.m.giveBack(o.asked)
		}
	}
	o.c = nil
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
		o.ran()
	}
	c.use.lastEnd = at
	if !o.quiet {
		c.s.excluded.Add(1)
	}
	o.c = nil
}

func (o *Op) operation(end Instant, err error) Operation {
	c := o.c
	return Operation{
		Kind: o.kind, Name: o.Name, Text: o.Text, Namespace: o.NS, N: o.n, Turns: o.Turns,
		Asked: c.Time(o.asked), Start: c.Time(o.start),
		FirstResponse: c.Time(o.first), End: c.Time(end),
		Wait: o.wait, Queued: o.queued, WaitKnown: o.waitKnown, Idle: o.idle,
		Err: err, Outcome: o.outcome,
	}
}

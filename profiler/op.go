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
	unwanted     bool // no Sink will want to know
	Prepared     Prepared
	start, first Instant
	asked        Instant
	n            uint64
	idle         time.Duration
	wait, queued time.Duration
	staleIdle    time.Duration
	lost         time.Duration // in earlier attempts
	selection    time.Duration
	selected     bool  // selection is known
	tries        uint8 // earlier attempts
	untold       bool  // how many is not known
	// Turns, Name, Text, NS, Coll and Cursor are Operation's Turns, Name, Text, Namespace, Collection and Cursor, Prepared its Prepared, Driver and Consumer its rows' times.
	// They may be set until End.
	Turns            int
	Name, Text, NS   string
	Coll             string
	Cursor           int64
	Driver, Consumer time.Duration
	// Check and Preparing are Operation's; they may be set until Responded.
	Check, Preparing time.Duration
	// Sent, Received and BytesKnown are Operation's; they may be set until End, for a first response's event until Responded.
	Sent, Received int64
	BytesKnown     bool
	// Metered is for whoever begins a Meter for the operation: it says that it counts for this one.
	Metered bool
}

// Begin starts an operation at the instant at, the entry of the caller's call.
func (c *Conn) Begin(ctx context.Context, k OpKind, at Instant) (o Op) {
	c.BeginIn(&o, ctx, k, at)
	return o
}

// BeginIn is Begin for an Op that stays where it is: what was in o is forgotten.
func (c *Conn) BeginIn(o *Op, ctx context.Context, k OpKind, at Instant) {
	c.begin(o, ctx, k, at, false)
}

// begin is BeginIn; over says that the operation ends in this call's neighbour, so that nobody sees it run.
func (c *Conn) begin(o *Op, ctx context.Context, k OpKind, at Instant, over bool) {
	if o == nil {
		return
	}
	if *o = (Op{}); c == nil {
		return
	}
	u := &c.use
	o.c, o.kind, o.n = c, k, u.n+1
	if c.p.off.Load() {
		o.quiet = true
		markOf(ctx).take() // or a later operation under the same context would take the time since for its wait
		return
	}
	if !at.Known() {
		at = Now()
	}
	o.start = at
	if !u.since.Known() && u.returned.Known() {
		c.begun(at)
	}
	if c.p.Holders && !u.noted {
		c.held()
	}
	o.idle = u.idle
	if u.shown && !over { // else the connection shows as idle until there is a response, which is as good
		u.holding.set(running, u.n, at)
	}
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
}

// Started is when the operation began, zero for the zero Op.
func (o *Op) Started() Instant { return o.start }

// Told reports whether a Sink may be told of the operation: if not, what only events carry need not be found out.
func (o *Op) Told() bool { return o.c != nil && !o.quiet && o.c.p.wants(o.m) }

// Outcome is how the operation went so far.
func (o *Op) Outcome() Outcome { return o.outcome }

// ran uses the operation up: it has its number, and the idle time and the wait that led to it.
func (o *Op) ran(at Instant) {
	u := &o.c.use
	u.n = o.n
	u.opsNow++
	u.idle, u.waitKnown, u.shown = 0, false, true
	u.holding.set(held, o.n, at)
	if o.waitKnown {
		o.c.s.recordWait(o.wait, o.queued)
	}
}

// Responded says that the first response came at the instant at. Later calls change nothing.
func (o *Op) Responded(ctx context.Context, at Instant, err error) {
	if o.c != nil && !o.first.Known() {
		o.responded(ctx, at, err, false)
	}
}

// responded is Responded; whole says that the response is the operation's end, and MeasureOperation asked for.
func (o *Op) responded(ctx context.Context, at Instant, err error, whole bool) {
	c := o.c
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
	if whole {
		c.s.recordWhole(m, o.outcome, at.Sub(o.start))
	} else {
		c.s.record(m, o.outcome, at.Sub(o.start))
	}
	if o.idle > 0 {
		c.s.afterIdle(o.idle, o.outcome, at.Sub(o.start))
	}
	if c.p.wants(o.m) {
		o.report(ctx, KindFirstResponse, 0, err)
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
	c.use.lastEnd = at
	whole := c.p.whole.Load()
	if !o.first.Known() {
		o.responded(ctx, at, err, whole)
	} else if !o.quiet {
		if err != nil && o.outcome == OK {
			o.outcome = classifyIn(ctx, err)
		}
		o.recordRows(at, whole)
	}
	if c.use.unseen {
		c.use.holding.set(idle, c.use.n, at)
	}
	if !o.quiet {
		if o.Prepared != NotPrepared {
			c.s.prepared[o.Prepared].Add(1)
		}
		if c.p.wants(o.m) {
			o.report(ctx, KindOperation, at, err)
		}
	}
	o.c = nil
}

// recordRows records what came after the first response.
func (o *Op) recordRows(at Instant, whole bool) {
	s := o.c.s
	if o.kind == OpQuery || o.kind == OpBatch || o.kind == OpCopy {
		if o.Driver+o.Consumer > 0 {
			s.rowsDriver.Add(int64(o.Driver))
			s.rowsConsumer.Add(int64(o.Consumer))
		}
		s.record(MeasureRows, o.outcome, at.Sub(o.first))
	}
	if whole {
		s.record(MeasureOperation, o.outcome, at.Sub(o.start))
	}
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
	if c.use.shown {
		c.use.holding.set(held, c.use.n, o.start)
	}
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

// Excluded counts a command that is no operation, such as a driver's goodbye: it takes no place among the operations, and its duration is no
// latency.
func (c *Conn) Excluded() {
	if c != nil && !c.p.off.Load() {
		c.s.excluded.Add(1)
	}
}

// report tells the sinks that want to know. The event is made once the first of them does.
func (o *Op) report(ctx context.Context, k Kind, end Instant, err error) {
	c := o.c
	p := c.p
	if ctx == nil {
		ctx = context.Background()
	}
	if p.pending.Load() > 0 {
		p.flushCloses()
	}
	if o.unwanted {
		return
	}
	if i := p.wanting(0, ctx, k, c, o.n); i < len(p.Sinks) || o.m != nil && o.m.sink != nil {
		o.reportFrom(i, ctx, k, end, err)
	}
}

// reportFrom makes the event and gives it to Sinks[i], those after it that want it, and the caller's own.
func (o *Op) reportFrom(i int, ctx context.Context, k Kind, end Instant, err error) {
	c := o.c
	p := c.p
	e := Event{Kind: k, Conn: c}
	o.operation(&e.Op, end, err)
	for ; i < len(p.Sinks); i = p.wanting(i+1, ctx, k, c, o.n) {
		p.call(p.Sinks[i], ctx, &e)
	}
	if o.m != nil && o.m.sink != nil {
		p.call(o.m.sink, ctx, &e)
	}
}

// operation fills in p, which is zero.
func (o *Op) operation(p *Operation, end Instant, err error) {
	c := o.c
	p.Kind, p.Name, p.Text, p.Namespace, p.N, p.Turns, p.Prepared = o.kind, o.Name, o.Text, o.NS, o.n, o.Turns, o.Prepared
	p.Collection, p.Cursor = o.Coll, o.Cursor
	start := c.create.Start.Add(o.start.Sub(c.started)) // see Conn.Time
	p.Start, p.FirstResponse = start, start.Add(o.first.Sub(o.start))
	if end.Known() {
		p.End = start.Add(end.Sub(o.start))
	}
	p.Idle, p.Driver, p.Consumer = o.idle, o.Driver, o.Consumer
	p.Check, p.Preparing = o.Check, o.Preparing
	p.Sent, p.Received, p.BytesKnown = o.Sent, o.Received, o.BytesKnown
	p.Err, p.Outcome = err, o.outcome
	if o.waitKnown {
		p.Asked = start.Add(o.asked.Sub(o.start))
		p.Wait, p.Queued, p.WaitKnown, p.WaitFor = o.wait, o.queued, true, o.waitFor
		p.Attempts, p.StaleIdle = 1+int(o.dead), o.staleIdle
	}
	if o.tries > 0 {
		p.Attempts, p.Lost = max(p.Attempts, 1)+int(o.tries), o.lost
	}
	if o.untold {
		p.Attempts = 0
	}
	p.Selection, p.SelectionKnown = o.selection, o.selected
}

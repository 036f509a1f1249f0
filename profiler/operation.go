package profiler

import (
	"context"
	"sync/atomic"
	"time"
)

// OpKind says what an operation is.
type OpKind uint8

const (
	// OpQuery, OpExec and the rest are database/sql's; a query without arguments on the wire and one that was prepared first are both
	// OpQuery. Ping, ResetSession and liveness checks are not operations.
	OpQuery OpKind = iota + 1
	OpExec
	OpPrepare
	OpBegin
	OpCommit
	OpRollback
	OpBatch
	OpCopy
	// OpCommand is a MongoDB command other than hello, sasl*, endSessions and ping.
	OpCommand
)

var opNames = [...]string{"invalid", "query", "exec", "prepare", "begin", "commit", "rollback", "batch", "copy", "command"}

// String is the kind's name.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return "invalid"
}

// Operation is what one call on a connection did, as an Event carries it.
type Operation struct {
	Kind OpKind
	// Name is MongoDB's command name; Text is SQL's query text as the caller gave it, without the arguments. Text may hold literals:
	// exporters must not show it unless asked to.
	Name, Text string
	// Namespace is the database, where the operation names one.
	Namespace string
	// N is the operation's index on its connection, from 1: 1 is the first query, all others are reused ones.
	N uint64
	// Asked is when the caller asked the pool; zero if unknown.
	Asked time.Time
	// Start, FirstResponse and End are entry of the call, first answer and rows closed.
	Start, FirstResponse, End time.Time
	// Wait is the caller's wait, Queued its part that was not spent on the create it waited for. Valid if WaitKnown: unknown is not 0.
	Wait, Queued time.Duration
	WaitKnown    bool
	// Idle is how long the connection was unused before this operation; 0 within one use, and for a new connection.
	Idle time.Duration
	// Turns counts the awaited round trips, 0 if unknown.
	Turns int
	// Err is the driver's own error, Outcome what kind it is.
	Err     error
	Outcome Outcome
}

// use is the state of a connection between its checkouts. The pool has one user at a time, whose lock orders all access; only ops is
// also read by reports.
type use struct {
	ops      atomic.Uint64
	since    Instant // begin of the use
	returned Instant // end of the last use, zero while in use
	lastEnd  Instant // end of the last operation
	opsNow   int     // operations in this use

	idle         time.Duration // before this use; its first operation takes it
	asked        Instant       // when this use's caller asked
	wait, queued time.Duration
	waitKnown    bool
}

// waited notes the wait of the caller who got the connection at the instant at.
func (u *use) waited(asked, at Instant, overlap func(from, to Instant) time.Duration) {
	u.asked, u.waitKnown = asked, true
	u.wait = max(0, at.Sub(asked))
	u.queued = max(0, u.wait-overlap(asked, at))
}

// CheckedOut says that the pool gave the connection to a caller at the instant at; asked is when the caller asked, zero if not known
// (then ctx may carry Asked's mark).
func (c *Conn) CheckedOut(ctx context.Context, asked, at Instant) {
	if c == nil || c.p.off.Load() {
		return
	}
	u := &c.use
	if u.returned.Known() {
		u.idle = max(0, at.Sub(u.returned))
		c.s.record(MeasureIdle, OK, u.idle)
	}
	u.since, u.returned, u.opsNow = at, 0, 0
	if !asked.Known() {
		asked = markOf(ctx).take()
	}
	if asked.Known() {
		u.waited(asked, at, c.overlap)
	}
}

// CheckedIn says that the caller gave the connection back at the instant at. The zero Instant says "just now": if exactly one operation
// ran, its end serves, else the clock is read.
func (c *Conn) CheckedIn(at Instant) {
	if c == nil || c.p.off.Load() {
		return
	}
	u := &c.use
	if !at.Known() {
		if at = u.lastEnd; u.opsNow != 1 {
			at = Now()
		}
	}
	if u.since.Known() {
		c.s.record(MeasureUse, OK, max(0, at.Sub(u.since)))
	}
	u.since, u.returned = 0, at
}

// Ops counts the operations that ran on the connection so far.
func (c *Conn) Ops() uint64 {
	if c == nil {
		return 0
	}
	return c.use.ops.Load()
}

// Op is one running operation. It is a value for its one user; the zero Op does nothing.
type Op struct {
	c              *Conn
	m              *mark
	kind           OpKind
	waitKnown      bool
	start, first   Instant
	asked          Instant
	n              uint64
	idle           time.Duration
	wait, queued   time.Duration
	outcome        Outcome
	Turns          int
	Name, Text, NS string
}

// Begin starts an operation at the instant at, the entry of the caller's call.
func (c *Conn) Begin(ctx context.Context, k OpKind, at Instant) Op {
	if c == nil || c.p.off.Load() {
		return Op{}
	}
	u := &c.use
	o := Op{c: c, m: markOf(ctx), kind: k, start: at, n: u.ops.Load() + 1, idle: u.idle}
	if asked := o.m.take(); asked.Known() {
		u.waited(asked, at, c.overlap)
	}
	if u.waitKnown {
		o.asked, o.wait, o.queued, o.waitKnown = u.asked, u.wait, u.queued, true
	}
	return o
}

// Started is when the operation began, zero for the zero Op.
func (o *Op) Started() Instant { return o.start }

// Responded says that the first response came at the instant at. Later calls change nothing.
func (o *Op) Responded(ctx context.Context, at Instant, err error) {
	c := o.c
	if c == nil || o.first.Known() {
		return
	}
	o.first = at
	u := &c.use
	u.ops.Store(o.n)
	u.opsNow++
	u.idle = 0
	if err != nil {
		o.outcome = classifyIn(ctx, err)
	}
	if o.waitKnown {
		u.waitKnown = false
		c.s.record(MeasureWait, OK, o.wait)
		c.s.record(MeasureQueued, OK, o.queued)
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
	if !o.first.Known() {
		o.Responded(ctx, at, err)
	} else {
		if err != nil && o.outcome == OK {
			o.outcome = classifyIn(ctx, err)
		}
		if o.kind == OpQuery || o.kind == OpBatch || o.kind == OpCopy {
			c.s.record(MeasureRows, o.outcome, at.Sub(o.first))
		}
	}
	c.use.lastEnd = at
	if c.p.wants(o.m) {
		c.p.emit(ctx, o.m, Event{Kind: KindOperation, Conn: c, Op: o.operation(at, err)})
	}
	o.c = nil
}

// Skip ends an operation that never was one: the driver declined it (driver.ErrSkip), or the connection was found dead before anything
// reached the server and the pool repeats it on another. dead counts the latter.
func (o *Op) Skip(dead bool) {
	if o.c != nil && dead {
		o.c.s.stale.Add(1)
	}
	o.c = nil
}

// Exclude ends an operation whose duration is no latency, such as an unacknowledged write. It is counted, and it uses up "first".
func (o *Op) Exclude(at Instant) {
	c := o.c
	if c == nil {
		return
	}
	c.use.ops.Store(o.n)
	c.use.opsNow++
	c.use.lastEnd = at
	c.s.excluded.Add(1)
	o.c = nil
}

func (o *Op) operation(end Instant, err error) Operation {
	c := o.c
	return Operation{
		Kind: o.kind, Name: o.Name, Text: o.Text, Namespace: o.NS, N: o.n, Turns: o.Turns,
		Asked: c.anchor.time(o.asked), Start: c.anchor.time(o.start),
		FirstResponse: c.anchor.time(o.first), End: c.anchor.time(end),
		Wait: o.wait, Queued: o.queued, WaitKnown: o.waitKnown, Idle: o.idle,
		Err: err, Outcome: o.outcome,
	}
}

package profiler

import (
	"context"
	"time"
)

// Hold ends an attempt that failed at the instant at and that the driver itself is about to repeat: it uses the connection as every
// operation does, and is not reported. The Op must then be handed to Repeats of the operation that repeats it, or to GiveUp.
func (o *Op) Hold(at Instant) {
	if o.c == nil {
		return
	}
	o.first = at
	o.ran(at)
	o.c.use.lastEnd = at
}

// Repeats says that o is the next attempt of the operation that failed on the held one: both are one operation, with o's connection.
func (o *Op) Repeats(failed *Op) {
	if o.c == nil || failed.c == nil {
		return
	}
	o.tries = failed.tries + 1
	o.lost = failed.lost + max(0, o.start.Sub(failed.start))
	if failed.selected && !o.selected {
		o.selection, o.selected = failed.selection, true
	}
	if !o.quiet {
		o.c.s.repeated.Add(1)
	}
	failed.c = nil
}

// OperationUntied counts an operation of which nothing tells on which connection it ran: it is in no series, and no Sink sees it.
func (p *Profiler) OperationUntied() {
	if p != nil {
		p.untied.Add(1)
	}
}

// AttemptsUnknown says that nothing tells whether the operation repeats another, or is repeated: Operation.Attempts is then 0.
func (o *Op) AttemptsUnknown() { o.untold = true }

// GiveUp reports a held attempt that nothing repeated after all, as the operation that it was. The connection may be another user's by now.
func (o *Op) GiveUp(ctx context.Context, err error) {
	c := o.c
	if c == nil {
		return
	}
	if !o.quiet {
		o.outcome = classify(err)
		m := MeasureReusedQuery
		if o.n == 1 {
			m = MeasureFirstQuery
		}
		if c.p.whole.Load() {
			c.s.recordWhole(m, o.outcome, o.first.Sub(o.start))
		} else {
			c.s.record(m, o.outcome, o.first.Sub(o.start))
		}
		if c.p.wants(o.m) {
			o.report(ctx, KindFirstResponse, 0, err)
			o.report(ctx, KindOperation, o.first, err)
		}
	}
	o.c = nil
}

// BeginSelected is BeginIn for a driver that chooses a server before it asks that server's pool, and that tells of an operation when it is
// over: Responded or Hold follow at once. Asked's mark in ctx then says when the
// caller came: its time up to the asking of the pool is Operation.Selection, and no part of the wait.
func (c *Conn) BeginSelected(o *Op, ctx context.Context, k OpKind, at Instant) {
	came := markOf(ctx).take()
	c.begin(o, ctx, k, at, true)
	if came.Known() && o.waitKnown {
		o.selection, o.selected = max(time.Duration(0), o.asked.Sub(came)), true
	}
}

// MadeDuring is how much of the time from from to to was spent on making the connection.
func (c *Conn) MadeDuring(from, to Instant) time.Duration {
	if c == nil {
		return 0
	}
	return c.overlap(from, to)
}

package pool

import (
	"context"

	"github.com/connprof/connprof/profiler"
)

// What passes on the wire is counted for operations that someone will be told of, where a handshake.Dialer made the connection. An operation
// that the driver declined at first (driver.ErrSkip) goes on as Prepare and Stmt, and so does its count. Where two operations run at once, on
// a connection that its user has to himself, what passes is neither's alone, and is not known.
//
// Most operations are not counted: whoever has one asks Op.Metered before responded, passed and end, and for a meter before begin.
type wire struct {
	meter  profiler.Meter // nil if there is none
	counts bool           // an operation is being counted
	shared bool           // another one ran meanwhile
	goesOn bool           // it was declined, and is to go on
	calls  bool           // the driver has been called for it, and has not returned
}

// begin begins to count for op, which goes on with what the driver declined or does not.
func (w *wire) begin(ctx context.Context, op *profiler.Op, goesOn bool) {
	switch {
	case w.goesOn && goesOn:
		op.Metered, w.goesOn, w.calls = true, false, true
		return
	case w.goesOn:
		w.abandoned()
	case w.counts && w.calls: // and never returned: the caller has recovered from its panic
		w.counts = false
		w.meter.End()
	case w.counts:
		w.shared = true
		return
	}
	if op.Wanted(ctx) {
		w.meter.Begin()
		op.Metered, w.counts, w.shared, w.calls = true, true, false, true
	}
}

// declined says that op goes on as another.
func (w *wire) declined(op *profiler.Op) { w.goesOn, w.calls = op.Metered, false }

// abandoned ends the count of an operation that was to go on and did not.
func (w *wire) abandoned() {
	if w.goesOn {
		w.goesOn, w.counts = false, false
		w.meter.End()
	}
}

// responded tells op its round trips, if they are known from the wire, and the bytes until now.
func (w *wire) responded(op *profiler.Op, err error) {
	w.calls = false
	if w.shared {
		return
	}
	if turns, _ := w.meter.Answered(); turns > 0 {
		op.Turns = turns
	}
	w.passed(op, err)
}

// passed tells op the bytes until now. If a good answer came unseen, the driver reads in ways that can't be counted.
func (w *wire) passed(op *profiler.Op, err error) {
	op.Sent, op.Received, op.BytesKnown = w.meter.Bytes()
	if w.shared || err == nil && op.Sent > 0 && op.Received == 0 {
		op.Sent, op.Received, op.BytesKnown = 0, 0, false
	}
}

// end ends the count for op.
func (w *wire) end(op *profiler.Op) {
	op.Metered, w.counts = false, false
	w.meter.End()
}

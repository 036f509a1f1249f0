package profiler

import (
	"context"
	"errors"
	"net"
	"os"
)

// Kind says what an Event reports.
type Kind uint8

const (
	// KindCreate reports a connection's making, once, at hand-over or failure.
	KindCreate Kind = iota + 1
	// KindFirstResponse reports an operation whose first response came. The caller's span is still open then.
	KindFirstResponse
	// KindOperation reports an operation at its end, its rows closed.
	KindOperation
	// KindClose reports a connection's end, once.
	KindClose
	// KindWaitFailed reports a caller who asked a pool for a connection and got none: it gave up, or was refused.
	KindWaitFailed
)

var kindNames = [...]string{"invalid", "create", "first_response", "operation", "close", "wait_failed"}

// String is the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "invalid"
}

// Event is one thing that happened, passed by value.
type Event struct {
	// Kind says what happened, and so which of the others are set.
	Kind Kind
	// Conn is the connection it happened on, never nil. Conn.Create tells how it was made. With KindWaitFailed there is none: Conn says
	// where the caller wanted to go (Endpoint), has the ID 0 and no Create.
	Conn *Conn
	// Op is set for KindFirstResponse and KindOperation; with KindWaitFailed it has Asked, Wait, End, Outcome and Err.
	Op Operation
	// Close is set for KindClose.
	Close Close
}

// A Sink receives events. Record is called concurrently, on the goroutines of the host's own calls, so it must not block. ctx is the
// operation's (for a create: that of the caller it ran for, context.Background if none); it is there for its values and may be
// canceled already. A panic is recovered and counted (Report.SinkPanics). What an Event refers to is read-only.
type Sink interface {
	Record(ctx context.Context, e Event)
}

// A Decliner is a Sink that says beforehand which events of operations it has no use for, so that they need not be made for it: a tracer
// whose caller is not sampled. Wants is asked for each KindFirstResponse and KindOperation, on the hot path; ctx is as for Record, and n is
// the operation's index on c, from 1. Where what passes on the wire is counted for an operation, both are asked for before it runs, and a
// Decliner that has no use for either is not asked again. All other events come without asking.
type Decliner interface {
	Sink
	Wants(ctx context.Context, k Kind, c *Conn, n uint64) bool
}

// A Dropper is a Sink that counts what it left out to keep within a bound of its own. Reports add it up (Dropped.Sinks).
type Dropper interface {
	Sink
	Dropped() int64
}

var _ Dropper = (*AsyncSink)(nil)

func (p *Profiler) sinksDropped() (n int64) {
	defer func() {
		if recover() != nil {
			p.panics.Add(1)
		}
	}()
	for _, s := range p.Sinks {
		if d, ok := s.(Dropper); ok {
			n += d.Dropped()
		}
	}
	return n
}

// classify maps an error to an outcome.
func classify(err error) Outcome {
	if err == nil {
		return OK
	}
	if errors.Is(err, context.Canceled) {
		return Canceled
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return Timeout
	}
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		return Timeout
	}
	return Failed
}

// classifyIn is classify for an error that came while ctx was in force: drivers return their own error for a query that ended because
// its context did.
func classifyIn(ctx context.Context, err error) Outcome {
	o := classify(err)
	if o == Failed && ctx != nil {
		if cerr := ctx.Err(); cerr != nil {
			return classify(cerr)
		}
	}
	return o
}

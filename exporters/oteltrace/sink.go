package oteltrace

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// Sink makes OpenTelemetry spans of a Profiler's events. The zero value uses the global provider. Its fields must not change once it is in
// use; its methods may be called concurrently. It starts no goroutine. It blocks as long as the provider's span processors do.
type Sink struct {
	// Queries says how operations are shown; the zero value is QuerySpans.
	Queries Queries
	// QueryText puts the query's text into db.query.text, with ? for every literal and without comments; false leaves it out.
	QueryText bool
	// Prepares also makes spans of operations that prepare a statement; without it only of those that failed.
	Prepares bool
	// ParentOnly leaves out query spans that would be roots: those of operations without a span above them.
	ParentOnly bool
	// Monitors also emits the creates of connections that serve no caller: monitoring, cancel requests, and what is unattributed.
	Monitors bool
	// WaitThreshold is what a wait, for the pool or for the choice of a server, must exceed to have its own span; 0 means 1 ms, less than 0
	// means 0: every known wait.
	WaitThreshold time.Duration
	// MaxConnectionTraces bounds the connection spans emitted in one second; 0 means 100, less than 0 no bound.
	MaxConnectionTraces int

	tp    trace.TracerProvider // nil: the global one
	bound atomic.Pointer[binding]
	held  held
	storm storm
	texts statements
}

var (
	_ profiler.Decliner = (*Sink)(nil)
	_ profiler.Dropper  = (*Sink)(nil)
)

// New returns a Sink that makes its spans with tp. With nil it asks the global provider, each time it is used and not before.
func New(tp trace.TracerProvider) *Sink { return &Sink{tp: tp} }

// Record makes the spans that e completes. ctx is what the spans hang under.
func (s *Sink) Record(ctx context.Context, e profiler.Event) {
	switch e.Kind {
	case profiler.KindCreate:
		s.created(ctx, e.Conn)
	case profiler.KindFirstResponse:
		if e.Op.N == 1 {
			s.firstUse(ctx, e.Conn, &e.Op)
		}
		s.emitOverdue(&e.Op.FirstResponse)
		if s.Queries != QuerySpans {
			if p := parentOf(ctx); p.kind == sampled {
				s.annotate(p, e.Conn, &e.Op)
			}
		}
	case profiler.KindOperation:
		if e.Op.N == 1 { // again, for a Sink behind a queue that lost the first response
			s.firstUse(ctx, e.Conn, &e.Op)
		}
		s.emitOverdue(&e.Op.End)
		if s.Queries != QuerySpans || e.Op.Kind == profiler.OpPrepare && e.Op.Outcome == profiler.OK && !s.Prepares {
			return
		}
		if p := parentOf(ctx); p.kind == sampled || p.kind == noParent && !s.ParentOnly {
			s.operation(p, e.Conn, &e.Op)
		}
	case profiler.KindWaitFailed:
		if s.Queries == QuerySpans {
			s.waitFailed(parentOf(ctx), e.Conn, &e.Op)
		}
	case profiler.KindClose:
		if st := s.stateOf(e.Conn); st != nil {
			s.emitHeld(e.Conn, st, root)
		}
		s.emitOverdue(&e.Close.At)
	}
}

// Wants declines the events of operations that come to nothing here: under a caller that is not sampled, and later first responses (or, where there are no query
// spans, ends). While
// creates are held all are wanted, because any may find one overdue.
func (s *Sink) Wants(ctx context.Context, k profiler.Kind, _ *profiler.Conn, n uint64) bool {
	if n == 1 || s.held.due.Load() != 0 {
		return true
	}
	if (k == profiler.KindOperation) != (s.Queries == QuerySpans) {
		return false
	}
	sc := trace.SpanContextFromContext(ctx)
	if s.Queries != QuerySpans {
		return sc.IsSampled()
	}
	return sc.IsSampled() || !sc.IsValid() && !s.ParentOnly
}

// created decides where a create's span goes, or that its first operation will.
func (s *Sink) created(ctx context.Context, c *profiler.Conn) {
	cr := c.Create()
	if cr == nil {
		return
	}
	st := newConnState(c, cr)
	switch {
	case c.Role() != profiler.RolePool:
		if s.Monitors {
			s.emitConnection(c, st, root)
		}
	case cr.Caller:
		s.emitConnection(c, st, parentOf(ctx))
	case cr.Err != nil:
		s.emitConnection(c, st, root)
	default:
		st.held = true
		c.Attach(stateKey{s}, st)
		s.hold(c, st)
		ready := cr.Start.Add(cr.Duration)
		s.emitOverdue(&ready)
		return
	}
	if cr.Err == nil {
		c.Attach(stateKey{s}, st)
	}
}

// firstUse emits a held create: under the span of its first user if that one asked no later than the create began, else as a root.
func (s *Sink) firstUse(ctx context.Context, c *profiler.Conn, op *profiler.Operation) {
	st := s.stateOf(c)
	if st == nil {
		return
	}
	if op.WaitKnown && !op.Asked.After(st.create.Start) {
		s.emitHeld(c, st, parentOf(ctx))
		return
	}
	s.emitHeld(c, st, root)
}

// Flush emits the creates that still wait for their first operation, as roots. Call it before the provider is shut down.
func (s *Sink) Flush() {
	for _, h := range s.held.takeAll() {
		s.emitHeld(h.conn, h.st, root)
	}
}

// Dropped counts the connection spans that MaxConnectionTraces kept back; reports and metrics have it, too.
func (s *Sink) Dropped() int64 { return s.storm.dropped.Load() }

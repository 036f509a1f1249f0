package oteltrace

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// Queries says how operations are shown.
type Queries uint8

const (
	// QuerySpans makes a span of each operation.
	QuerySpans Queries = iota
	// QueryAttributes makes none. It is for programs whose operations have spans already: at the first response an operation sets the
	// attributes that begin with connprof. on the span in its context, and adds the link to its connection's. Under other wrappers of
	// database/sql, whose Connectors wrap ours, that span is theirs; with a tracer of pgx such as otelpgx in the configuration, it is the
	// tracer's. A MongoDB command has an event instead, since nothing puts a command's own span into its context.
	QueryAttributes
	// QueryEvents makes none either: an operation is one event, connprof.query, on the span in its context, the caller's.
	QueryEvents
)

// queryEvent is the name of that event.
const queryEvent = "connprof.query"

// annotate tells an operation, at its first response, on the span that is there already.
func (s *Sink) annotate(p parent, c *profiler.Conn, op *profiler.Operation) {
	if !p.span.IsRecording() {
		return
	}
	st := s.stateFor(c)
	if st == nil {
		return
	}
	if s.Queries == QueryEvents || c.Endpoint().System == "mongodb" {
		say := s.statementOf(c, st, op)
		attrs := append(make([]attribute.KeyValue, 0, 32), say.attrs...)
		attrs = appendNamespace(attrs, namespaceOf(c, op))
		attrs = appendError(attrs, op)
		at := op.FirstResponse
		if start := p.started(); !start.IsZero() {
			at = at.Add(shift(start, at))
		}
		p.span.AddEvent(queryEvent, trace.WithTimestamp(at), trace.WithAttributes(s.ownAttributes(attrs, st, op)...))
		return
	}
	p.span.SetAttributes(s.ownAttributes(make([]attribute.KeyValue, 0, 32), st, op)...)
	if sc, ok := st.link(); ok {
		p.span.AddLink(trace.Link{SpanContext: sc})
	}
}

package oteltrace

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// defaultWaitThreshold is what WaitThreshold's zero means.
const defaultWaitThreshold = time.Millisecond

var clientKind = trace.WithSpanKind(trace.SpanKindClient)

// operation emits the query span of an operation that ended, and that of its wait, under p.
func (s *Sink) operation(p parent, c *profiler.Conn, op *profiler.Operation) {
	b := s.bind()
	if p.kind == noParent && b.asleep(op.End) {
		return
	}
	st := s.stateFor(c)
	if st == nil {
		return
	}
	var moved time.Duration
	if p.kind == sampled {
		start := p.started()
		first := op.Start
		if op.WaitKnown && !op.Asked.Before(start) {
			first = op.Asked
		}
		moved = shift(start, first)
		s.wait(b, p, start, moved, c, st, op)
	}

	name := operationOf(op)
	opts := append(make([]trace.SpanStartOption, 0, 4), clientKind,
		trace.WithTimestamp(op.Start.Add(moved)), trace.WithAttributes(s.queryAttributes(c, st, op, name)...))
	if sc, ok := st.link(); ok {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: sc}))
	}
	_, span := b.start(p, op.Start, spanName(c, st, op, name), opts)
	if span == nil {
		return
	}
	if op.Outcome != profiler.OK {
		span.SetStatus(codes.Error, op.Outcome.String())
	}
	span.End(trace.WithTimestamp(op.End.Add(moved)))
}

// operationOf is db.operation.name: MongoDB's command, or what database/sql was asked to do. SQL text is not parsed.
func operationOf(op *profiler.Operation) string {
	if op.Name != "" {
		return op.Name
	}
	return op.Kind.String()
}

func namespaceOf(c *profiler.Conn, op *profiler.Operation) string {
	if op.Namespace != "" {
		return op.Namespace
	}
	return c.Endpoint().Namespace
}

// spanName is "{db.operation.name} {target}", as the semantic conventions have it for spans without a query summary: the target is the
// namespace, or the server where none is known.
func spanName(c *profiler.Conn, st *connState, op *profiler.Operation, name string) string {
	if ns := namespaceOf(c, op); ns != "" {
		return name + " " + ns
	}
	return name + " " + st.target
}

func (s *Sink) queryAttributes(c *profiler.Conn, st *connState, op *profiler.Operation, name string) []attribute.KeyValue {
	n := len(st.attrs) + 10 // what a reused query has, and room for an error and a text
	if op.N == 1 {
		n += int(profiler.NumPhases)
	}
	attrs := append(make([]attribute.KeyValue, 0, n), st.attrs...)
	attrs = appendNamespace(attrs, namespaceOf(c, op))
	attrs = append(attrs, operationName(name),
		keyReused.Bool(op.N > 1), keyIndex.Int64(int64(op.N)), seconds(keyFirstResponse, op.FirstResponse.Sub(op.Start)))
	if s.QueryText && op.Text != "" {
		attrs = append(attrs, queryText(op.Text))
	}
	if op.Err != nil {
		attrs = append(attrs, errorType(op.Outcome, op.Err))
	}
	if st.tlsKnown {
		attrs = append(attrs, seconds(keyTLSDuration, st.tls), keyTLSAmortized.Float64(st.tls.Seconds()/float64(max(op.N, 1))))
	}
	if op.Turns > 0 {
		attrs = append(attrs, keyTurns.Int(op.Turns))
	}
	if op.WaitKnown {
		attrs = append(attrs, seconds(keyWait, op.Wait), seconds(keyQueued, op.Queued))
	}
	if op.N > 1 {
		return append(attrs, seconds(keyIdle, op.Idle))
	}
	if !st.create.TotalUnknown {
		attrs = append(attrs, seconds(keyCreate, st.create.Duration))
	}
	for p := range profiler.Phases {
		if sp := st.create.Phases[p]; sp.Present {
			attrs = append(attrs, seconds(phaseKeys[p], sp.Duration))
		}
	}
	return attrs
}

// wait emits the span of the caller's wait, if it is known and long enough. It ends where the create that it waited for starts, whose own
// span tells the rest, and does not start before its parent.
func (s *Sink) wait(b *binding, p parent, parentStart time.Time, moved time.Duration,
	c *profiler.Conn, st *connState, op *profiler.Operation) {
	if !op.WaitKnown {
		return
	}
	from, to := op.Asked, op.Asked.Add(op.Wait)
	if create := st.create.Start; op.N == 1 && !create.Before(from) && create.Before(to) {
		to = create
	}
	if !parentStart.IsZero() {
		from = from.Add(max(0, parentStart.Sub(from)))
	}
	threshold := s.WaitThreshold
	if threshold == 0 {
		threshold = defaultWaitThreshold
	}
	if to.Sub(from) <= max(threshold, 0) {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, len(st.attrs)+1), st.attrs...)
	if pool := c.Endpoint().Pool; pool != "" {
		attrs = append(attrs, poolName(pool))
	}
	_, span := b.tracer.Start(p.ctx, "wait_for_connection",
		trace.WithTimestamp(from.Add(moved)), trace.WithAttributes(attrs...))
	span.End(trace.WithTimestamp(to.Add(moved)))
}

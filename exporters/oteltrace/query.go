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

	say := s.statementOf(c, st, op)
	begin, end := op.Start.Add(moved), op.End.Add(moved)
	if p.kind == sampled { // a tracer that pgx calls after us starts its span a moment later than the operation
		begin = notBefore(begin, p.started())
		end = notBefore(end, begin)
	}
	opts := append(make([]trace.SpanStartOption, 0, 4), clientKind,
		trace.WithTimestamp(begin), trace.WithAttributes(s.queryAttributes(c, st, op, say)...))
	if sc, ok := st.link(); ok {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: sc}))
	}
	_, span := b.start(p, op.Start, spanName(c, st, op, say), opts)
	if span == nil {
		return
	}
	if op.Outcome != profiler.OK {
		span.SetStatus(codes.Error, op.Outcome.String())
	}
	span.End(trace.WithTimestamp(end))
}

// notBefore is t, or start where the wall clock has t before it.
func notBefore(t, start time.Time) time.Time {
	if !start.IsZero() && t.Round(0).Before(start.Round(0)) {
		return start
	}
	return t
}

// statementOf is what can be said of the operation's statement: from MongoDB's command, the text, or what database/sql was asked to do.
func (s *Sink) statementOf(c *profiler.Conn, st *connState, op *profiler.Operation) *statement {
	if op.Text != "" {
		if last := st.last.Load(); last != nil && last.text == op.Text {
			return last
		}
		say := s.texts.of(c.Endpoint().System, op.Text)
		if len(op.Text) <= maxKeptLength { // say doesn't hold on to more
			st.last.Store(say)
		}
		return say
	}
	if st := byKind[op.Kind]; st != nil {
		return st
	}
	name := op.Name
	if name == "" {
		name = op.Kind.String()
	}
	return s.texts.ofCommand(name, op.Collection)
}

func namespaceOf(c *profiler.Conn, op *profiler.Operation) string {
	if op.Namespace != "" {
		return op.Namespace
	}
	return c.Endpoint().Namespace
}

// spanName is db.query.summary, else "{db.operation.name} {target}", as the semantic conventions have it: the target is the collection, the
// namespace, or the server, whatever is known first.
func spanName(c *profiler.Conn, st *connState, op *profiler.Operation, say *statement) string {
	name := say.name
	if name == "" {
		if name = op.Name; name == "" {
			name = op.Kind.String()
		}
		if ns := namespaceOf(c, op); ns != "" {
			name += " " + ns
		} else {
			name += " " + st.target
		}
	}
	if op.Kind == profiler.OpPrepare && say.name != "" {
		name = "PREPARE " + name
	}
	return name
}

func (s *Sink) queryAttributes(c *profiler.Conn, st *connState, op *profiler.Operation, say *statement) []attribute.KeyValue {
	n := len(st.attrs) + len(say.attrs) + 6 // what a reused query has, as nearly as is worth the look
	if st.tlsKnown {
		n += 2
	}
	if op.WaitKnown {
		n += 4
	}
	if op.Driver+op.Consumer > 0 {
		n += 2
	}
	if op.Err != nil || s.QueryText {
		n += 3
	}
	if op.N == 1 {
		n += int(profiler.NumPhases)
	}
	attrs := append(append(make([]attribute.KeyValue, 0, n), st.attrs...), say.attrs...)
	attrs = appendNamespace(attrs, namespaceOf(c, op))
	if s.QueryText && op.Text != "" {
		attrs = append(attrs, say.clean())
	}
	return s.ownAttributes(appendError(attrs, op), st, op)
}

// ownAttributes are those that the semantic conventions don't have; the connection's number is among st.attrs.
func (s *Sink) ownAttributes(attrs []attribute.KeyValue, st *connState, op *profiler.Operation) []attribute.KeyValue {
	if s.Queries != QuerySpans {
		attrs = append(attrs, st.attrs[0])
	}
	attrs = append(attrs, keyReused.Bool(op.N > 1), keyIndex.Int64(int64(op.N)), seconds(keyFirstResponse, op.FirstResponse.Sub(op.Start)))
	if st.tlsKnown {
		attrs = append(attrs, seconds(keyTLSDuration, st.tls), keyTLSAmortized.Float64(st.tls.Seconds()/float64(max(op.N, 1))))
	}
	if op.Turns > 0 {
		attrs = append(attrs, keyTurns.Int(op.Turns))
	}
	if op.BytesKnown {
		attrs = append(attrs, keySent.Int64(op.Sent), keyReceived.Int64(op.Received))
	}
	if op.WaitKnown {
		attrs = append(attrs, seconds(keyWait, op.Wait), seconds(keyQueued, op.Queued), keyWaitedFor.String(op.WaitFor.String()))
	}
	if op.Attempts > 0 {
		attrs = append(attrs, keyAttempts.Int(op.Attempts))
	}
	if op.Lost > 0 {
		attrs = append(attrs, seconds(keyLost, op.Lost))
	}
	if op.StaleIdle > 0 {
		attrs = append(attrs, seconds(keyStaleIdle, op.StaleIdle))
	}
	if op.SelectionKnown {
		attrs = append(attrs, seconds(keySelection, op.Selection))
	}
	if op.Prepared != profiler.NotPrepared {
		attrs = append(attrs, keyPrepared.String(op.Prepared.String()))
	}
	if op.Driver+op.Consumer > 0 {
		attrs = append(attrs, seconds(keyRowsDriver, op.Driver), seconds(keyRowsConsumer, op.Consumer))
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

// appendError adds error.type, and the server's own code if it gave one.
func appendError(attrs []attribute.KeyValue, op *profiler.Operation) []attribute.KeyValue {
	if op.Err == nil {
		return attrs
	}
	code := statusCode(op.Err)
	if code != "" {
		attrs = append(attrs, responseStatus(code))
	}
	return append(attrs, errorType(op.Outcome, code, op.Err))
}

// wait emits the spans of what the caller waited for before its connection, as far as it is known and long enough: the choice of a server,
// and the pool. The latter ends where the create that it waited for starts, whose own span tells the rest. Neither starts before its parent.
func (s *Sink) wait(b *binding, p parent, parentStart time.Time, moved time.Duration,
	c *profiler.Conn, st *connState, op *profiler.Operation) {
	if !op.WaitKnown {
		return
	}
	from, to := op.Asked, op.Asked.Add(op.Wait)
	if create := st.create.Start; op.N == 1 && !create.Before(from) && create.Before(to) {
		to = create
	}
	if op.SelectionKnown && op.Attempts <= 1 { // that of a repeated operation lies before its first attempt, whose end is not known here
		s.waited(b, p, "server_selection", from.Add(-op.Selection), from, parentStart, moved, st.attrs)
	}
	attrs := st.attrs
	if pool := c.Endpoint().Pool; pool != "" {
		attrs = append(append(make([]attribute.KeyValue, 0, len(attrs)+1), attrs...), poolName(pool))
	}
	s.waited(b, p, "wait_for_connection", from, to, parentStart, moved, attrs)
}

// waitFailed emits the span of a caller who got no connection, which no query span can tell. However short it was, it is an error.
func (s *Sink) waitFailed(p parent, c *profiler.Conn, op *profiler.Operation) {
	if p.kind != sampled {
		return
	}
	from, to := op.Asked, op.End
	if start := p.started(); !start.IsZero() {
		moved := shift(start, from)
		from = notBefore(from.Add(moved), start)
		to = notBefore(to.Add(moved), from)
	}
	e := c.Endpoint()
	attrs := appendNamespace(appendEndpoint(nil, e), e.Namespace)
	if e.Pool != "" {
		attrs = append(attrs, poolName(e.Pool))
	}
	attrs = append(appendError(attrs, op), seconds(keyWait, op.Wait))
	_, span := s.bind().tracer.Start(p.ctx, "wait_for_connection", trace.WithTimestamp(from), trace.WithAttributes(attrs...))
	span.SetStatus(codes.Error, op.Outcome.String())
	span.End(trace.WithTimestamp(to))
}

// waited emits the span of a wait that was longer than the threshold.
func (s *Sink) waited(b *binding, p parent, name string, from, to, parentStart time.Time, moved time.Duration, attrs []attribute.KeyValue) {
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
	_, span := b.tracer.Start(p.ctx, name, trace.WithTimestamp(from.Add(moved)), trace.WithAttributes(attrs...))
	span.End(trace.WithTimestamp(to.Add(moved)))
}

package oteltrace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

func (s *Sink) emitConnection(c *profiler.Conn, st *connState, p parent) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.emitConnectionLocked(c, st, p)
}

// emitConnectionLocked emits the connection's span under p: as a root if p has none or started later, not at all if p is not sampled.
func (s *Sink) emitConnectionLocked(c *profiler.Conn, st *connState, p parent) {
	cr := st.create
	var moved time.Duration
	switch p.kind {
	case unsampled:
		return
	case sampled:
		start := p.started()
		if cr.Start.Before(start) {
			p = root
		} else {
			moved = shift(start, cr.Start)
		}
	}
	b := s.bind()
	if p.kind == noParent && b.asleep(cr.Start.Add(cr.Duration)) {
		return
	}
	if !s.storm.admit(profiler.Now(), s.MaxConnectionTraces) {
		return
	}
	begin := cr.Start.Add(moved)
	ctx, span := b.start(p, cr.Start, "connection_setup "+st.target, []trace.SpanStartOption{
		trace.WithTimestamp(begin), trace.WithAttributes(connectionAttributes(c, st)...),
	})
	if span == nil {
		s.storm.giveBack()
		return
	}
	for phase := range profiler.Phases {
		if phase != profiler.Other && cr.Phases[phase].Present {
			b.phase(ctx, cr, phase, begin)
		}
	}
	if cr.Err != nil {
		span.SetStatus(codes.Error, failure(cr))
	}
	span.End(trace.WithTimestamp(begin.Add(cr.Duration)))
	st.sc = span.SpanContext()
}

// failure describes a failed create in words that are ours: how it ended, where, and what to check.
func failure(cr *profiler.Create) string {
	text := cr.Outcome.String() + " in " + cr.Failed.String()
	if advice := cr.Advice(); advice != "" {
		text += ": " + advice
	}
	return text
}

func connectionAttributes(c *profiler.Conn, st *connState) []attribute.KeyValue {
	cr, e := st.create, c.Endpoint()
	attrs := append(make([]attribute.KeyValue, 0, len(st.attrs)+16), st.attrs...)
	attrs = appendNamespace(attrs, e.Namespace)
	if e.Pool != "" {
		attrs = append(attrs, poolName(e.Pool))
	}
	attrs = appendTransport(attrs, cr.Wire.Transport)
	attrs = append(attrs, keyBackground.Bool(!cr.Caller))
	if r := c.Role(); r != profiler.RolePool {
		attrs = append(attrs, keyRole.String(r.String()))
		if kind := c.Kind(); kind != "" {
			attrs = append(attrs, keyRoleKind.String(kind))
		}
	}
	if st.tlsKnown {
		attrs = append(attrs, seconds(keyTLSDuration, st.tls))
	}
	attrs = appendTLS(attrs, &cr.TLS)
	if cr.TCP.Known {
		attrs = append(attrs, seconds(keyRTT, cr.TCP.RTT), keyRetransmits.Int64(int64(cr.TCP.Retransmits)))
	}
	if cr.TotalUnknown {
		attrs = append(attrs, keyPartial.Bool(true))
	}
	if cr.Err != nil {
		attrs = append(appendFailure(attrs, cr), keyFailedPhase.String(cr.Failed.String()))
	}
	return attrs
}

// phase emits the span of one phase of a create that begins, on the clock of the trace, at begin.
func (b *binding) phase(ctx context.Context, cr *profiler.Create, p profiler.Phase, begin time.Time) {
	start := begin.Add(cr.Phases[p].Begin)
	opts := []trace.SpanStartOption{trace.WithTimestamp(start)}
	if attrs := phaseAttributes(cr, p); len(attrs) > 0 {
		opts = append(opts, trace.WithAttributes(attrs...))
	}
	_, span := b.tracer.Start(ctx, p.String(), opts...)
	if p == profiler.Attempts && span.IsRecording() {
		lostAttempts(span, cr, begin)
	}
	if cr.Failed == p {
		span.SetStatus(codes.Error, cr.Outcome.String())
	}
	span.End(trace.WithTimestamp(start.Add(cr.Phases[p].Duration)))
}

func phaseAttributes(cr *profiler.Create, p profiler.Phase) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	switch p {
	case profiler.Resolve:
		if r := cr.Resolved; r.Host != "" {
			attrs = append(attrs, lookedUp(r.Host), keyAnswers.Int(r.Answers), keyLookups.Int(r.Lookups))
		}
	case profiler.Connect:
		attrs = peerAddress(appendTransport(attrs, cr.Wire.Transport), cr.Wire.Peer)
	case profiler.TLS:
		attrs = appendTLS(attrs, &cr.TLS)
	case profiler.Auth, profiler.AuthSetup:
		if cr.Wire.AuthTurns > 0 {
			attrs = append(attrs, keyAuthTurns.Int(int(cr.Wire.AuthTurns)), seconds(keyAuthWait, cr.Wire.AuthWait))
		}
	}
	if cr.Failed == p {
		attrs = appendFailure(attrs, cr)
	}
	return attrs
}

// appendFailure adds error.type of a failed create, a profiler.ErrorClass where the server gave no code, and that code.
func appendFailure(attrs []attribute.KeyValue, cr *profiler.Create) []attribute.KeyValue {
	code := statusCode(cr.Err)
	if code != "" {
		attrs = append(attrs, responseStatus(code))
	} else {
		code = cr.Class.String()
	}
	return append(attrs, errorType(cr.Outcome, code, cr.Err))
}

// lostAttempts adds an event for each connect that was lost, when it began.
func lostAttempts(span trace.Span, cr *profiler.Create, begin time.Time) {
	for _, a := range cr.Attempts {
		if a.Err == nil {
			continue
		}
		attrs := peerAddress([]attribute.KeyValue{keyReached.String(a.Reached.String()), seconds(keyDuration, a.Duration)}, a.Address)
		span.AddEvent("attempt_lost", trace.WithTimestamp(begin.Add(a.Begin)),
			trace.WithAttributes(append(attrs, errorType(profiler.Failed, "", a.Err))...))
	}
}

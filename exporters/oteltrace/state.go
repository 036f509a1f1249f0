package oteltrace

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// stateKey is the key of a Sink's connState on a Conn; several Sinks may share the Conn.
type stateKey struct{ s *Sink }

// connState is what a Sink keeps beside a connection.
type connState struct {
	create   *profiler.Create
	attrs    []attribute.KeyValue // of all its spans; read-only
	target   string               // host:port, what spans are named after
	tls      time.Duration
	tlsKnown bool

	last atomic.Pointer[statement] // of its last operation that had a text

	mu   sync.Mutex        // held while its span is emitted, so that a query that comes meanwhile finds the link
	held bool              // mu: its span waits for the first operation
	sc   trace.SpanContext // mu: its span, the zero value if that was not sampled or not emitted
}

func newConnState(c *profiler.Conn, cr *profiler.Create) *connState {
	e := c.Endpoint()
	st := &connState{create: cr, attrs: connAttributes(c, cr), target: e.Address}
	if st.target == "" {
		st.target = e.System
	}
	switch tls := cr.Phases[profiler.TLS]; {
	case tls.Present:
		st.tls, st.tlsKnown = tls.Duration, true
	case cr.TLS.Inside || cr.Wire.Transport == profiler.TransportUnknown: // there may have been one that nobody saw
	default:
		st.tlsKnown = true
	}
	return st
}

// stateOf returns what s keeps beside c, nil if s never saw its create.
func (s *Sink) stateOf(c *profiler.Conn) *connState {
	st, _ := c.Attached(stateKey{s}).(*connState)
	return st
}

// stateFor is stateOf for an operation, which may be the first that s hears of a connection.
func (s *Sink) stateFor(c *profiler.Conn) *connState {
	if st := s.stateOf(c); st != nil {
		return st
	}
	cr := c.Create()
	if cr == nil {
		return nil
	}
	st := newConnState(c, cr)
	c.Attach(stateKey{s}, st)
	return st
}

func (st *connState) isHeld() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.held
}

// link is the span to link to, if there is one.
func (st *connState) link() (trace.SpanContext, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sc, st.sc.IsSampled()
}

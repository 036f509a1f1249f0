package otelmetric

import (
	"context"
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// Exemplars is a profiler.Sink that keeps examples for connprof.query.duration and db.client.operation.duration: the trace and span that a
// query ran under, if sampled. Of each endpoint, kind of query and outcome it keeps the latest of each doubling of the duration, 16 in all
// from 4 µs up. Put it among
// Profiler.Sinks and into Producer.Exemplars. The zero value is ready; its methods
// may be called concurrently. It keeps examples of 300 endpoints.
//
// It declines all that is not under a sampled span, so that a query under a context that is not sampled costs one look into that; no
// query allocates once its endpoint is known.
type Exemplars struct {
	mu       sync.Mutex                                       // held while byTarget is replaced
	byTarget atomic.Pointer[map[profiler.Endpoint]*reservoir] // never written to once it is here
}

var _ profiler.Decliner = (*Exemplars)(nil)

const (
	// maxReservoirs bounds the endpoints with examples; queries of others have none.
	maxReservoirs = 300
	numSlots      = 16
	firstSlot     = 13 // bits of the first slot's upper bound: 2^13 ns
)

// exampleOf is what a duration is an example of.
type exampleOf uint8

const (
	ofFirst  exampleOf = iota // the first query on a connection, to its first response
	ofReused                  // a later one
	ofWhole                   // any, to its end
	numExamples
)

// A reservoir holds the examples of one endpoint, by what they are of and outcome.
type reservoir [numExamples][len(outcomes)][numSlots]slot

type slot struct {
	mu sync.Mutex
	at time.Time
	d  time.Duration
	t  trace.TraceID
	s  trace.SpanID
}

// Wants declines what Record has no use for.
func (x *Exemplars) Wants(ctx context.Context, _ profiler.Kind, _ *profiler.Conn, _ uint64) bool {
	return trace.SpanContextFromContext(ctx).IsSampled()
}

// Record keeps a query at its first response, and at its end.
func (x *Exemplars) Record(ctx context.Context, e profiler.Event) {
	of, at := ofWhole, e.Op.End
	switch e.Kind {
	case profiler.KindFirstResponse:
		if of, at = ofReused, e.Op.FirstResponse; e.Op.N == 1 {
			of = ofFirst
		}
	case profiler.KindOperation:
	default:
		return
	}
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsSampled() || int(e.Op.Outcome) >= len(outcomes) {
		return
	}
	r := x.reservoir(e.Conn.Endpoint())
	if r == nil {
		return
	}
	d := max(0, at.Sub(e.Op.Start))
	s := &r[of][e.Op.Outcome][min(max(bits.Len64(uint64(d))-firstSlot, 0), numSlots-1)]
	if !s.mu.TryLock() { // another query of about this duration is being kept: as good an example
		return
	}
	s.at, s.d, s.t, s.s = at, d, sc.TraceID(), sc.SpanID()
	s.mu.Unlock()
}

// reservoir finds an endpoint's, or makes it; nil if there are too many.
func (x *Exemplars) reservoir(e profiler.Endpoint) *reservoir {
	if m := x.byTarget.Load(); m != nil {
		if r := (*m)[e]; r != nil {
			return r
		}
		if len(*m) >= maxReservoirs {
			return nil
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	more := make(map[profiler.Endpoint]*reservoir)
	if m := x.byTarget.Load(); m != nil {
		if r := (*m)[e]; r != nil || len(*m) >= maxReservoirs {
			return r
		}
		maps.Copy(more, *m)
	}
	r := new(reservoir)
	more[e] = r
	x.byTarget.Store(&more)
	return r
}

// of returns the examples that are later than one instant and not later than another.
func (x *Exemplars) of(e profiler.Endpoint, of exampleOf, o profiler.Outcome, after, upTo time.Time) (es []metricdata.Exemplar[float64]) {
	if x == nil {
		return nil
	}
	m := x.byTarget.Load()
	if m == nil || (*m)[e] == nil {
		return nil
	}
	slots := &(*m)[e][of][o]
	for i := range slots {
		s := &slots[i]
		s.mu.Lock()
		if at := s.at; at.After(after) && !at.After(upTo) {
			es = append(es, metricdata.Exemplar[float64]{
				Time: at, Value: s.d.Seconds(), TraceID: append([]byte(nil), s.t[:]...), SpanID: append([]byte(nil), s.s[:]...),
			})
		}
		s.mu.Unlock()
	}
	return es
}

package otelmetric

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/profiler"
)

// Producer hands a Profiler's counters and histograms to one reader of an OpenTelemetry SDK; it is a sdk/metric.Producer. Make it with New;
// its fields must not change once a reader has it. It starts no goroutine: it works when the reader collects. Its methods may be called
// concurrently.
type Producer struct {
	// Temporality of counters and histograms: metricdata.DeltaTemporality, or cumulative for all else, the zero value too. It must be what
	// the reader's exporter wants. Numbers that go up and down are cumulative always, as the SDK's are.
	Temporality metricdata.Temporality
	// Boundaries are the upper bounds of explicit buckets in seconds, ascending; nil means DefaultBoundaries.
	Boundaries []float64
	// MaxSize, if above 0, asks for base-2 exponential buckets of scale 4 instead, or of a lower scale where a histogram would otherwise
	// need more than MaxSize of them (2 at least). 160 holds ten octaves at scale 4, as from 1 ms to 1 s; 449 holds all.
	MaxSize int
	// WithoutConnections leaves out what Register makes instruments of, for a program that calls it.
	WithoutConnections bool
	// Exemplars, if set, also give connprof.query.duration and db.client.operation.duration examples of sampled traces. Producers may share them.
	Exemplars *Exemplars

	mu       sync.Mutex
	profiler *profiler.Profiler // mu; nil after Stop
	start    time.Time          // when counting began
	last     time.Time          // mu: the last collection, start before the first
	earlier  *profiler.Report   // mu: what it saw, for deltas
}

// DefaultBoundaries are the explicit buckets of a Producer that has none of its own, in seconds: from 50 µs, which is a round trip within a
// host, to 10 s, with those that the semantic conventions advise for db.client.operation.duration among them.
var DefaultBoundaries = []float64{
	0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// New returns a Producer of all that p has counted and will count. It is for one reader: a second reader needs a second Producer. A nil p has
// nothing to tell. New asks the watched pools for their counters, so it must not be called from inside a pool's callback.
//
// The points' start time is the call of New; if p had counted something before, it is when the process began.
func New(p *profiler.Profiler) *Producer {
	start := time.Now()
	p.CollectOperations()
	if r := p.Report(); len(r.Endpoints) > 0 || r.Dropped != (profiler.Dropped{}) || r.SinkPanics > 0 {
		if began := start.Add(-time.Duration(profiler.Now())); began.Before(start) {
			start = began
		}
	}
	return &Producer{profiler: p, start: start, last: start}
}

// Stop ends it: what is collected from then on has nothing of the Profiler, which the Producer lets go. With a Profiler that lives as long
// as the reader there is no need to: shutting the reader down is enough. It waits for a collection that is going on, so it must not be called
// from inside a pool's callback. It may be called more than once.
func (m *Producer) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.profiler, m.earlier = nil, nil
}

// Produce returns all metrics, in one scope. Readers call it. It asks the watched pools for their counters, and blocks as long as they do. A
// context that is done is an error, and the next collection covers the time of this one, too.
func (m *Producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.profiler == nil {
		return nil, nil
	}
	whole := m.profiler.Report()
	c := collection{
		whole: &whole, since: &whole, start: m.start, from: m.start, at: whole.At, temporality: metricdata.CumulativeTemporality,
		boundaries: m.Boundaries, maxSize: m.MaxSize, exemplars: m.Exemplars,
	}
	if c.boundaries == nil {
		c.boundaries = DefaultBoundaries
	}
	if m.Temporality == metricdata.DeltaTemporality {
		c.temporality, c.from = metricdata.DeltaTemporality, m.last
		if m.earlier != nil {
			since := whole.Sub(*m.earlier)
			c.since = &since
		}
		m.earlier = &whole
	}
	m.last = whole.At
	var s metricdata.ScopeMetrics
	s.Scope.Name, s.Scope.SchemaURL = scopeName, schemaURL
	if s.Metrics = c.metrics(!m.WithoutConnections); len(s.Metrics) == 0 {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{s}, nil
}

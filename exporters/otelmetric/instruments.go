package otelmetric

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/profiler"
)

// Register makes instruments of mp of p's connection metrics, all but the durations that come with each use of a connection (those stay a
// Producer's, whose WithoutConnections is then to be set). mp's views, limits and exemplars apply to them, and each of its readers has them
// in its own temporality; explicit boundaries are advised to it, DefaultBoundaries. nil stands for the global MeterProvider.
//
// Creates are recorded when they end, counters and pools are read when a reader collects. stop ends both. The counters begin with what p had
// counted before, the durations with the call. An error comes with a stop that undoes what was done.
func Register(p *profiler.Profiler, mp metric.MeterProvider) (stop func() error, err error) {
	if p == nil {
		return func() error { return nil }, nil
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	m := mp.Meter(scopeName, metric.WithSchemaURL(schemaURL))
	c := new(creates)
	var errs []error
	histogram := func(d description) metric.Float64Histogram {
		h, err := m.Float64Histogram(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.text),
			metric.WithExplicitBucketBoundaries(DefaultBoundaries...))
		errs = append(errs, err)
		return h
	}
	c.create, c.phase = histogram(connectionCreateTime), histogram(phaseDuration)

	observed := map[string]metric.Int64Observable{}
	var all []metric.Observable
	for _, n := range new(collection).with(&profiler.Report{}).numbers() {
		var i metric.Int64Observable
		var err error
		if n.sum.IsMonotonic {
			i, err = m.Int64ObservableCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(n.text))
		} else {
			i, err = m.Int64ObservableUpDownCounter(n.name, metric.WithUnit(n.unit), metric.WithDescription(n.text))
		}
		errs = append(errs, err)
		observed[n.name], all = i, append(all, i)
	}
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := p.Report()
		for _, n := range new(collection).with(&r).numbers() {
			for _, point := range n.sum.DataPoints {
				o.ObserveInt64(observed[n.name], point.Value, metric.WithAttributeSet(point.Attributes))
			}
		}
		return nil
	}, all...)
	errs = append(errs, err)
	stopCreates := p.ObserveCreates(c)
	return func() error {
		stopCreates()
		if reg == nil {
			return nil
		}
		return reg.Unregister()
	}, errors.Join(errs...)
}

// with is a collection of totals, whose points' times nobody looks at.
func (c *collection) with(r *profiler.Report) *collection {
	c.whole, c.since, c.temporality = r, r, metricdata.CumulativeTemporality
	return c
}

// creates is a Sink that records the durations of creates.
type creates struct {
	create, phase metric.Float64Histogram

	mu       sync.Mutex                               // held while byTarget is replaced
	byTarget atomic.Pointer[map[target]*prebuiltSets] // never written to once it is here
}

// A target is what creates are counted by: the Profiler bounds their number.
type target struct {
	endpoint profiler.Endpoint
	role     profiler.Role
}

// prebuiltSets are the attributes of one target's points, made once.
type prebuiltSets struct {
	base  []attribute.KeyValue
	pool  []metric.RecordOption
	phase [profiler.NumPhases][len(outcomes)]atomic.Pointer[[]metric.RecordOption]
}

var _ profiler.Sink = (*creates)(nil)

// Record records a create that ended. ctx may hold the span that the SDK keeps as an exemplar.
func (s *creates) Record(ctx context.Context, e profiler.Event) {
	cr := e.Conn.Create()
	if e.Kind != profiler.KindCreate || cr == nil {
		return
	}
	create, phase := s.create.Enabled(ctx), s.phase.Enabled(ctx)
	if !create && !phase {
		return
	}
	sets := s.setsOf(target{e.Conn.Counted(), e.Conn.Role()})
	if create && e.Conn.Role() == profiler.RolePool && cr.Outcome == profiler.OK && !cr.TotalUnknown {
		s.create.Record(ctx, cr.Duration.Seconds(), sets.pool...)
	}
	if !phase {
		return
	}
	for p := range profiler.Phases {
		if sp := cr.Phases[p]; sp.Present {
			o := profiler.OK
			if p == cr.Failed {
				o = cr.Outcome
			}
			s.phase.Record(ctx, sp.Duration.Seconds(), sets.ofPhase(p, o)...)
		}
	}
}

func (s *creates) setsOf(t target) *prebuiltSets {
	if m := s.byTarget.Load(); m != nil {
		if sets := (*m)[t]; sets != nil {
			return sets
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	more := make(map[target]*prebuiltSets)
	if m := s.byTarget.Load(); m != nil {
		if sets := (*m)[t]; sets != nil {
			return sets
		}
		maps.Copy(more, *m)
	}
	sets := &prebuiltSets{
		base: endpointAttributes(t.endpoint, t.role.String()),
		pool: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(poolNameOf(t.endpoint)))},
	}
	more[t] = sets
	s.byTarget.Store(&more)
	return sets
}

func (s *prebuiltSets) ofPhase(p profiler.Phase, o profiler.Outcome) []metric.RecordOption {
	slot := &s.phase[p][min(int(o), len(outcomes)-1)]
	if opts := slot.Load(); opts != nil {
		return *opts
	}
	set := attribute.NewSet(append(s.base[:len(s.base):len(s.base)], keyPhase.String(p.String()), keyOutcome.String(o.String()))...)
	slot.CompareAndSwap(nil, &[]metric.RecordOption{metric.WithAttributeSet(set)})
	return *slot.Load()
}

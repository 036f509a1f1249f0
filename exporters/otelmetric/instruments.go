package otelmetric

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/profiler"
)

// Register makes instruments of mp of p's connection metrics, all but the durations that come with each use of a connection (those stay a
// Producer's, whose WithoutConnections is then to be set). mp's views, limits and exemplars apply to them, and each of its readers has them
// in its own temporality; explicit boundaries are advised to it, DefaultBoundaries. nil stands for the global MeterProvider, which may be set
// later: what it then has begins as below, with the durations of creates that came after. A nil p has nothing to register.
//
// Creates are recorded when they end, counters and pools are read when a reader collects. The counters begin with what p had counted before,
// the durations with the call. stop ends both: once it has returned, nothing more is recorded. It waits for a collection that is going on,
// so it must not be called from one, nor from inside a pool's callback. It may be called more than once, concurrently, and after mp was
// shut down. Profilers of one provider add up, and a Profiler may have several providers; a second call for both the same, which would count
// everything twice, is an error until the first was stopped. An error comes with a stop that undoes what was done.
func Register(p *profiler.Profiler, mp metric.MeterProvider) (stop func() error, err error) {
	if p == nil {
		return func() error { return nil }, nil
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	registering.Lock()
	defer registering.Unlock()
	if registeredLocked(p, mp) {
		return func() error { return nil }, errors.New("otelmetric: Register: this Profiler is registered with this MeterProvider already")
	}
	m := mp.Meter(scopeName, metric.WithSchemaURL(schemaURL))
	c := &creates{of: mp}
	var errs []error
	histogram := func(d description) metric.Float64Histogram {
		h, err := m.Float64Histogram(d.name, metric.WithUnit(d.unit), metric.WithDescription(d.text),
			metric.WithExplicitBucketBoundaries(DefaultBoundaries...))
		errs = append(errs, err)
		if h == nil {
			return noop.Float64Histogram{}
		}
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
		if i != nil {
			observed[n.name], all = i, append(all, i)
		}
	}
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := p.Report()
		for _, n := range new(collection).with(&r).numbers() {
			i := observed[n.name]
			if i == nil {
				continue
			}
			for _, point := range n.sum.DataPoints {
				o.ObserveInt64(i, point.Value, metric.WithAttributeSet(point.Attributes))
			}
		}
		return nil
	}, all...)
	errs = append(errs, err)
	stopCreates := p.ObserveCreates(c)
	return sync.OnceValue(func() (err error) {
		c.stop()
		if reg != nil {
			err = reg.Unregister()
		}
		stopCreates() // last: until then p counts as registered
		return err
	}), errors.Join(errs...)
}

// registering is held from the look for another registration until there is one.
var registering sync.Mutex

// registeredLocked reports whether p is registered with mp. What can't be compared is never taken for the same.
func registeredLocked(p *profiler.Profiler, mp metric.MeterProvider) bool {
	return slices.ContainsFunc(p.CreateObservers(), func(s profiler.Sink) bool {
		c, ok := s.(*creates)
		return ok && reflect.ValueOf(c.of).Comparable() && reflect.ValueOf(mp).Comparable() && c.of == mp
	})
}

// with is a collection of totals, whose points' times nobody looks at.
func (c *collection) with(r *profiler.Report) *collection {
	c.whole, c.since, c.temporality = r, r, metricdata.CumulativeTemporality
	return c
}

// creates is a Sink that records the durations of creates.
type creates struct {
	of            metric.MeterProvider
	create, phase metric.Float64Histogram

	recording sync.RWMutex // held for reading by those who record
	stopped   bool         // recording

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
	s.recording.RLock()
	defer s.recording.RUnlock()
	if s.stopped {
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

// stop waits for those who are recording; others come too late.
func (s *creates) stop() {
	s.recording.Lock()
	defer s.recording.Unlock()
	s.stopped = true
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

package otelmetric

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/profiler"
)

// A collection makes the metrics of one Report.
type collection struct {
	whole       *profiler.Report // since counting began
	since       *profiler.Report // the part of it that this collection tells: all of it if cumulative
	start       time.Time        // when counting began
	from, at    time.Time        // what this collection tells of
	temporality metricdata.Temporality
	boundaries  []float64
	maxSize     int
	exemplars   *Exemplars
}

// metrics are all metrics that have a point, but for those of connections if they are told elsewhere.
func (c *collection) metrics(connections bool) []metricdata.Metrics {
	var ms []metricdata.Metrics
	for _, h := range c.histograms(connections) {
		ms = h.appendTo(ms)
	}
	if connections {
		for _, n := range c.numbers() {
			ms = n.appendTo(ms)
		}
	}
	return ms
}

// histograms are all durations; without connections only those that come with each use of one: they are too many for instruments.
func (c *collection) histograms(connections bool) []*durations {
	var (
		operation          = c.durations(operationDuration)
		create, wait, use  = c.durations(connectionCreateTime), c.durations(connectionWaitTime), c.durations(connectionUseTime)
		phase, query, rows = c.durations(phaseDuration), c.durations(queryDuration), c.durations(rowsDuration)
	)
	for i := range c.since.Endpoints {
		// Report.Sub keeps the endpoints and their order.
		e, whole := &c.since.Endpoints[i], &c.whole.Endpoints[i]
		s := endpointSeries{e: e, whole: whole, base: endpointAttributes(e.Endpoint, e.Role)}
		database := endpointSeries{e: e, whole: whole, base: databaseAttributes(s.base)}
		if e.Role == profiler.RolePool.String() {
			pool := attribute.NewSet(poolNameOf(e.Endpoint))
			if connections {
				create.add(pool, e, whole, profiler.MeasureCreate, profiler.OK)
			}
			wait.add(pool, e, whole, profiler.MeasureWait, profiler.OK)
			use.add(pool, e, whole, profiler.MeasureUse, profiler.OK)
		}
		for _, o := range outcomes {
			outcome := keyOutcome.String(o.String())
			if connections {
				for p := range profiler.Phases {
					s.durations(phase, profiler.Measure(p), o, keyPhase.String(p.String()), outcome)
				}
			}
			database.durations(operation, profiler.MeasureOperation, o, operationError(o)...)
			s.durations(query, profiler.MeasureFirstQuery, o, keyReused.Bool(false), outcome)
			s.durations(query, profiler.MeasureReusedQuery, o, keyReused.Bool(true), outcome)
			s.durations(rows, profiler.MeasureRows, o, outcome)
		}
	}
	return []*durations{operation, create, wait, use, phase, query, rows}
}

// numbers are all counters, and all that go up and down.
func (c *collection) numbers() []*numbers {
	var (
		count, limit         = c.number(connectionCount), c.number(connectionMax)
		idleLimit, idleLeast = c.number(connectionIdleMax), c.number(connectionIdleMin)
		waiting, late        = c.number(connectionPending), c.counter(connectionTimeouts)
		dialed, ended, dead  = c.counter(dials), c.counter(closed), c.counter(stale)
		handshake, refused   = c.counter(handshakes), c.counter(refusals)
		lost, panics         = c.counter(dropped), c.counter(sinkPanics)
	)
	counts := map[string]bool{} // pools that count who waits; of others it is known if their callers say when they ask
	for i := range c.whole.Pools {
		p := &c.whole.Pools[i]
		name := poolName(p.Name)
		count.add(attribute.NewSet(name, stateUsed), int64(p.InUse))
		count.add(attribute.NewSet(name, stateIdle), int64(p.Idle))
		for _, l := range []struct {
			to *numbers
			n  int
		}{{limit, p.MaxOpen}, {idleLimit, p.MaxIdle}, {idleLeast, p.MinIdle}} {
			if l.n > 0 {
				l.to.add(attribute.NewSet(name), int64(l.n))
			}
		}
		if p.PendingKnown {
			waiting.add(attribute.NewSet(name), int64(p.Pending))
			counts[p.Name] = true
		}
	}
	for i := range c.whole.Endpoints {
		e := &c.whole.Endpoints[i]
		if name := poolNameOf(e.Endpoint); e.WaitingKnown && !counts[name.Value.AsString()] {
			waiting.add(attribute.NewSet(name), e.Waiting)
		}
	}
	told := map[string]bool{} // pools that count their time-outs; of others it is known from the waits that failed
	for i := range c.since.Pools {
		p := &c.since.Pools[i]
		told[p.Name] = p.TimeoutsKnown
		if p.TimeoutsKnown && (p.Timeouts > 0 || c.temporality == metricdata.CumulativeTemporality) {
			late.add(attribute.NewSet(poolName(p.Name)), p.Timeouts)
		}
	}
	for i := range c.since.Endpoints {
		e := &c.since.Endpoints[i]
		s := endpointSeries{e: e, whole: e, base: endpointAttributes(e.Endpoint, e.Role)}
		if name := poolNameOf(e.Endpoint); e.Role == profiler.RolePool.String() && !told[name.Value.AsString()] {
			if d := e.Distribution(profiler.MeasureWait, profiler.Timeout); d != nil && d.Count > 0 {
				late.add(attribute.NewSet(name), int64(d.Count))
			}
		}
		s.count(dialed, e.Created)
		for _, f := range e.Failures {
			s.count(dialed, f.Count, keyFailedPhase.String(f.Phase), errorClass(f.Class))
		}
		for name, n := range e.ClosedBy {
			s.count(ended, n, keyCloseReason.String(name))
		}
		s.count(dead, e.Stale)
		for j := range e.TLS.Kinds {
			s.count(handshake, e.TLS.Kinds[j].Count, handshakeAttributes(&e.TLS.Kinds[j])...)
		}
		s.count(refused, e.TLS.Refused)
	}
	for kind, n := range map[string]int64{
		"endpoint": c.since.Dropped.Endpoints, "connection": c.since.Dropped.Conns, "close": c.since.Dropped.Closes,
		"sink": c.since.Dropped.Sinks, "operation": c.since.Dropped.Operations,
	} {
		if n > 0 || c.temporality == metricdata.CumulativeTemporality { // a total is there from the beginning, for alerts on its rise
			lost.add(attribute.NewSet(keyDropped.String(kind)), n)
		}
	}
	if n := c.since.SinkPanics; n > 0 || c.temporality == metricdata.CumulativeTemporality {
		panics.add(attribute.NewSet(), n)
	}
	return []*numbers{count, limit, idleLimit, idleLeast, waiting, late, dialed, ended, dead, handshake, refused, lost, panics}
}

var outcomes = [...]profiler.Outcome{profiler.OK, profiler.Failed, profiler.Canceled, profiler.Timeout}

// endpointSeries adds the points of one endpoint and role.
type endpointSeries struct {
	e, whole *profiler.EndpointReport
	base     []attribute.KeyValue
}

func (s *endpointSeries) set(extra ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(s.base[:len(s.base):len(s.base)], extra...)...)
}

func (s *endpointSeries) durations(to *durations, m profiler.Measure, o profiler.Outcome, extra ...attribute.KeyValue) {
	if d := s.e.Distribution(m, o); d != nil && d.Count > 0 {
		to.add(s.set(extra...), s.e, s.whole, m, o)
	}
}

// count adds a point unless nothing was counted.
func (s *endpointSeries) count(to *numbers, n int64, extra ...attribute.KeyValue) {
	if n != 0 {
		to.add(s.set(extra...), n)
	}
}

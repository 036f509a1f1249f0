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

// metrics are all metrics that have a point.
func (c *collection) metrics() []metricdata.Metrics {
	var (
		count, limit, idleLimit             = c.number(connectionCount), c.number(connectionMax), c.number(connectionIdleMax)
		create, wait, use                   = c.durations(connectionCreateTime), c.durations(connectionWaitTime), c.durations(connectionUseTime)
		phase, query, rows                  = c.durations(phaseDuration), c.durations(queryDuration), c.durations(rowsDuration)
		dialed, ended, dead                 = c.counter(dials), c.counter(closed), c.counter(stale)
		handshake, resumption, secondHellos = c.counter(handshakes), c.counter(resumptions), c.counter(helloRetries)
		lost, panics                        = c.counter(dropped), c.counter(sinkPanics)
	)
	for i := range c.whole.Pools {
		p := &c.whole.Pools[i]
		name := poolName(p.Name)
		count.add(attribute.NewSet(name, stateUsed), int64(p.InUse))
		count.add(attribute.NewSet(name, stateIdle), int64(p.Idle))
		if p.MaxOpen > 0 {
			limit.add(attribute.NewSet(name), int64(p.MaxOpen))
		}
		if p.MaxIdle > 0 {
			idleLimit.add(attribute.NewSet(name), int64(p.MaxIdle))
		}
	}
	for i := range c.since.Endpoints {
		// Report.Sub keeps the endpoints and their order.
		e, whole := &c.since.Endpoints[i], &c.whole.Endpoints[i]
		s := endpointSeries{e: e, whole: whole, base: endpointAttributes(e)}
		if e.Role == profiler.RolePool.String() {
			pool := attribute.NewSet(poolNameOf(e.Endpoint))
			create.add(pool, e, whole, profiler.MeasureCreate, profiler.OK)
			wait.add(pool, e, whole, profiler.MeasureWait, profiler.OK)
			use.add(pool, e, whole, profiler.MeasureUse, profiler.OK)
		}
		for _, o := range outcomes {
			outcome := keyOutcome.String(o.String())
			for p := range profiler.Phases {
				s.durations(phase, profiler.Measure(p), o, keyPhase.String(p.String()), outcome)
			}
			s.durations(query, profiler.MeasureFirstQuery, o, keyReused.Bool(false), outcome)
			s.durations(query, profiler.MeasureReusedQuery, o, keyReused.Bool(true), outcome)
			s.durations(rows, profiler.MeasureRows, o, outcome)
		}
		s.count(dialed, e.Created)
		for name, n := range e.FailedIn {
			s.count(dialed, n, keyFailedPhase.String(name))
		}
		for name, n := range e.ClosedBy {
			s.count(ended, n, keyCloseReason.String(name))
		}
		s.count(dead, e.Stale)
		for name, n := range e.TLS.Versions {
			s.count(handshake, n, tlsVersion(name))
		}
		s.count(resumption, e.TLS.Resumed, keyAccepted.Bool(true))
		s.count(resumption, e.TLS.Refused, keyAccepted.Bool(false))
		s.count(secondHellos, e.TLS.HelloRetry)
	}
	for kind, n := range map[string]int64{
		"endpoint": c.since.Dropped.Endpoints, "connection": c.since.Dropped.Conns, "close": c.since.Dropped.Closes,
	} {
		if n > 0 || c.temporality == metricdata.CumulativeTemporality { // a total is there from the beginning, for alerts on its rise
			lost.add(attribute.NewSet(keyDropped.String(kind)), n)
		}
	}
	if n := c.since.SinkPanics; n > 0 || c.temporality == metricdata.CumulativeTemporality {
		panics.add(attribute.NewSet(), n)
	}

	var ms []metricdata.Metrics
	for _, h := range []*durations{create, wait, use, phase, query, rows} {
		ms = h.appendTo(ms)
	}
	for _, n := range []*numbers{count, limit, idleLimit, dialed, ended, dead, handshake, resumption, secondHellos, lost, panics} {
		ms = n.appendTo(ms)
	}
	return ms
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

package otelmetric_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

const ms = time.Millisecond

// The interface is the SDK's, which the package itself does not import.
var _ sdkmetric.Producer = (*otelmetric.Producer)(nil)

var (
	noCaller context.Context // what a pool passes that makes a connection by itself

	shop  = profiler.Endpoint{System: "mysql", Address: "db.internal:3306", Namespace: "shop", Pool: "orders"}
	mongo = profiler.Endpoint{System: "mongodb", Address: "mongo.internal:27017"}
)

// A step is a phase that takes d.
type step struct {
	p profiler.Phase
	d time.Duration
}

// begin does what a dialer tells a Conn, in the bubble's time, up to the hand-over.
func begin(p *profiler.Profiler, e profiler.Endpoint, r profiler.Role, steps ...step) *profiler.Conn {
	c := p.NewConn(e, r)
	for _, s := range steps {
		time.Sleep(s.d)
		c.Cut(s.p, profiler.Now())
		if s.p == profiler.TLS {
			c.Update(func(cr *profiler.Create) {
				cr.TLS = profiler.TLSInfo{Seen: true, Done: true, Version: tls.VersionTLS13}
			})
		}
	}
	return c
}

// query runs a query whose first response takes d, and whose rows take as long again.
func query(ctx context.Context, c *profiler.Conn, d time.Duration, err error) {
	o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
	time.Sleep(d)
	o.Responded(ctx, profiler.Now(), err)
	time.Sleep(d)
	o.End(ctx, profiler.Now(), err)
}

// program is what a small program does: a connection used twice, one that fails, one of a driver's monitoring, a pool that is watched.
func program(p *profiler.Profiler) {
	ctx := context.Background()
	asked := profiler.Now()
	time.Sleep(1 * ms)
	c := begin(p, shop, profiler.RolePool,
		step{profiler.Resolve, 2 * ms}, step{profiler.Connect, 3 * ms}, step{profiler.TLS, 8 * ms}, step{profiler.AuthSetup, 4 * ms})
	c.Update(func(cr *profiler.Create) {
		cr.TLS.HelloRetry, cr.TLS.Resumed, cr.TLS.ResumptionOffered = true, true, true
	})
	c.Ready(ctx)
	c.CheckedOut(ctx, asked, profiler.Now())
	query(ctx, c, 5*ms, nil)
	c.CheckedIn(profiler.Now())
	time.Sleep(50 * ms)
	c.CheckedOut(ctx, 0, profiler.Now())
	query(ctx, c, 3*ms, errors.New("Error 1064 (42000): secret"))
	c.CheckedIn(profiler.Now())
	c.CheckedOut(ctx, 0, profiler.Now())
	o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
	o.Skip(true)
	c.CheckedIn(profiler.Now())
	c.Closed(profiler.CloseLifetime, nil)

	c = begin(p, shop, profiler.RolePool, step{profiler.Connect, 20 * ms})
	c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Connect })
	c.Update(func(cr *profiler.Create) {
		cr.TLS = profiler.TLSInfo{Seen: true, Done: true, Version: tls.VersionTLS12, ResumptionOffered: true}
	})
	c.Fail(ctx, context.DeadlineExceeded)

	begin(p, mongo, profiler.RoleMonitor, step{profiler.Connect, 1 * ms}).Ready(noCaller)
	p.WatchPool("orders", func() profiler.PoolStats {
		return profiler.PoolStats{
			MaxOpen: 10, MaxIdle: 4, MinIdle: 1, Open: 3, InUse: 1, Idle: 2, Pending: 2, PendingKnown: true, Timeouts: 3, TimeoutsKnown: true,
		}
	})
}

// produce collects once and returns the metrics by name.
func produce(t *testing.T, m *otelmetric.Producer) map[string]metricdata.Metrics {
	t.Helper()
	scopes, err := m.Produce(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, scopes)
}

func byName(t *testing.T, scopes []metricdata.ScopeMetrics) map[string]metricdata.Metrics {
	t.Helper()
	all := map[string]metricdata.Metrics{}
	for _, s := range scopes {
		for _, m := range s.Metrics {
			if _, twice := all[m.Name]; twice {
				t.Errorf("%s is there twice", m.Name)
			}
			all[m.Name] = m
		}
	}
	return all
}

func attrs(kvs ...attribute.KeyValue) attribute.Set { return attribute.NewSet(kvs...) }

// points are the attributes of all points, by metric.
func points(all map[string]metricdata.Metrics) map[string][]attribute.Set {
	sets := map[string][]attribute.Set{}
	for name, m := range all {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				sets[name] = append(sets[name], p.Attributes)
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				sets[name] = append(sets[name], p.Attributes)
			}
		case metricdata.ExponentialHistogram[float64]:
			for _, p := range d.DataPoints {
				sets[name] = append(sets[name], p.Attributes)
			}
		}
	}
	return sets
}

// counted is the number of all durations of one histogram, or of all that one counter counted.
func counted(m metricdata.Metrics) (n uint64) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			n += uint64(p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			n += p.Count
		}
	case metricdata.ExponentialHistogram[float64]:
		for _, p := range d.DataPoints {
			n += p.Count
		}
	}
	return n
}

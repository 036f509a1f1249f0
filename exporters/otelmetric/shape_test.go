package otelmetric_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

var bounds = []float64{0.001, 0.0035, 0.01, 0.1}

func str(k, v string) attribute.KeyValue       { return attribute.String(k, v) }
func flag(k string, v bool) attribute.KeyValue { return attribute.Bool(k, v) }
func outcome(name string) attribute.KeyValue   { return str("connprof.outcome", name) }
func ofShop(kv ...attribute.KeyValue) attribute.Set {
	return attrs(append(kv, str("db.system.name", "mysql"), str("db.namespace", "shop"), str("db.client.connection.pool.name", "orders"),
		str("server.address", "db.internal"), attribute.Int("server.port", 3306), str("connprof.role", "pool"))...)
}
func ofOperations(kv ...attribute.KeyValue) attribute.Set {
	return attrs(append(kv, str("db.system.name", "mysql"), str("db.namespace", "shop"), str("server.address", "db.internal"),
		attribute.Int("server.port", 3306))...)
}
func ofMongo(kv ...attribute.KeyValue) attribute.Set {
	return attrs(append(kv, str("db.system.name", "mongodb"), str("server.address", "mongo.internal"), attribute.Int("server.port", 27017),
		str("connprof.role", "monitor"))...)
}

var ofPool = attrs(str("db.client.connection.pool.name", "orders"))

// expected are the metrics of program, cumulative and in explicit buckets.
func expected(start, at time.Time) map[string]metricdata.Metrics {
	one := func(set attribute.Set, d time.Duration) metricdata.HistogramDataPoint[float64] {
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: set, StartTime: start, Time: at, Count: 1, Sum: d.Seconds(), Bounds: bounds, BucketCounts: make([]uint64, len(bounds)+1),
			Min: metricdata.NewExtrema(d.Seconds()), Max: metricdata.NewExtrema(d.Seconds()),
		}
		i, _ := slices.BinarySearch(bounds, d.Seconds())
		p.BucketCounts[i] = 1
		return p
	}
	histogram := func(name, text string, ps ...metricdata.HistogramDataPoint[float64]) metricdata.Metrics {
		return metricdata.Metrics{Name: name, Unit: "s", Description: text,
			Data: metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality, DataPoints: ps}}
	}
	n := func(set attribute.Set, v int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Attributes: set, StartTime: start, Time: at, Value: v}
	}
	sum := func(name, unit, text string, more bool, ps ...metricdata.DataPoint[int64]) metricdata.Metrics {
		return metricdata.Metrics{Name: name, Unit: unit, Description: text,
			Data: metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: more, DataPoints: ps}}
	}
	phase := func(name, how string) []attribute.KeyValue {
		return []attribute.KeyValue{str("connprof.phase", name), outcome(how)}
	}
	use := one(ofPool, 10*ms) // and two more: 6 ms and none at all
	use.Count, use.Sum, use.Min, use.BucketCounts = 3, (16 * ms).Seconds(), metricdata.NewExtrema(0.0), []uint64{1, 0, 2, 0, 0}

	all := map[string]metricdata.Metrics{}
	for _, m := range []metricdata.Metrics{
		histogram("db.client.connection.create_time", dbconv.ClientConnectionCreateTime{}.Description(), one(ofPool, 17*ms)),
		histogram("db.client.connection.wait_time", dbconv.ClientConnectionWaitTime{}.Description(), one(ofPool, 18*ms)),
		histogram("db.client.connection.use_time", dbconv.ClientConnectionUseTime{}.Description(), use),
		sum("db.client.connection.count", "{connection}", dbconv.ClientConnectionCount{}.Description(), false,
			n(attrs(str("db.client.connection.pool.name", "orders"), str("db.client.connection.state", "used")), 1),
			n(attrs(str("db.client.connection.pool.name", "orders"), str("db.client.connection.state", "idle")), 2)),
		sum("db.client.connection.max", "{connection}", dbconv.ClientConnectionMax{}.Description(), false, n(ofPool, 10)),
		sum("db.client.connection.idle.max", "{connection}", dbconv.ClientConnectionIdleMax{}.Description(), false, n(ofPool, 4)),
		sum("db.client.connection.idle.min", "{connection}", dbconv.ClientConnectionIdleMin{}.Description(), false, n(ofPool, 1)),
		sum("db.client.connection.pending_requests", "{request}", dbconv.ClientConnectionPendingRequests{}.Description(), false, n(ofPool, 2)),
		sum("db.client.connection.timeouts", "{timeout}", dbconv.ClientConnectionTimeouts{}.Description(), true, n(ofPool, 3)),
		histogram("db.client.operation.duration", dbconv.ClientOperationDuration{}.Description(),
			one(ofOperations(), 10*ms), one(ofOperations(str("error.type", "_OTHER")), 6*ms)),
		histogram("connprof.connection.phase.duration", "The time that one phase of a create took.",
			one(ofShop(phase("resolve", "ok")...), 2*ms), one(ofShop(phase("connect", "ok")...), 3*ms), one(ofShop(phase("tls", "ok")...), 8*ms),
			one(ofShop(phase("auth+setup", "ok")...), 4*ms), one(ofShop(phase("connect", "timeout")...), 20*ms),
			one(ofMongo(phase("connect", "ok")...), 1*ms)),
		sum("connprof.connection.dials", "{connection}", "The connections that were made, or could not be made.", true,
			n(ofShop(), 1), n(ofShop(str("connprof.create.failed_phase", "connect"), str("error.type", "timeout")), 1), n(ofMongo(), 1)),
		sum("connprof.connection.closed", "{connection}", "The connections that were closed.", true,
			n(ofShop(str("connprof.close.reason", "lifetime")), 1)),
		sum("connprof.connection.stale", "{connection}", "The connections that were found dead when a caller was to have one.", true,
			n(ofShop(), 1)),
		histogram("connprof.query.duration", "The time from an operation's start to its first response.",
			one(ofShop(flag("connprof.connection.reused", false), outcome("ok")), 5*ms),
			one(ofShop(flag("connprof.connection.reused", true), outcome("error")), 3*ms)),
		histogram("connprof.query.rows.duration", "The time from an operation's first response to its rows closed.",
			one(ofShop(outcome("ok")), 5*ms), one(ofShop(outcome("error")), 3*ms)),
		sum("connprof.tls.handshakes", "{handshake}", "The TLS handshakes that were completed.", true,
			n(ofShop(str("tls.protocol.version", "1.3"), flag("tls.resumed", true), flag("connprof.tls.hello_retry", true)), 1),
			n(ofShop(str("tls.protocol.version", "1.2"), flag("tls.resumed", false), flag("connprof.tls.hello_retry", false)), 1)),
		sum("connprof.tls.resumptions.refused", "{handshake}", "The TLS handshakes that offered a session which the server did not take.", true,
			n(ofShop(), 1)),
		sum("connprof.dropped", "{item}", "What did not fit into a bound of the profiler.", true,
			n(attrs(str("connprof.dropped.kind", "endpoint")), 0), n(attrs(str("connprof.dropped.kind", "connection")), 0),
			n(attrs(str("connprof.dropped.kind", "close")), 0), n(attrs(str("connprof.dropped.kind", "sink")), 0),
			n(attrs(str("connprof.dropped.kind", "operation")), 0)),
		sum("connprof.sink.panics", "{panic}", "The panics of sinks that were recovered.", true, n(attrs(), 0)),
	} {
		all[m.Name] = m
	}
	return all
}

func TestEveryMetricHasItsShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		m.Boundaries = bounds
		start := time.Now()
		program(&p)
		got, want := produce(t, m), expected(start, time.Now())
		for name := range want {
			if !metricdatatest.AssertEqual(t, want[name], got[name]) {
				t.Errorf("%s differs", name)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s is not expected", name)
			}
		}
	})
}

// The table in doc.go is what users read.
func TestTheDocumentationNamesEveryMetricAndAttribute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		program(&p)
		text := documentation(t)
		all := produce(t, m)
		sets := points(all)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !strings.Contains(text, name+" ") {
				t.Errorf("doc.go says nothing of %s", name)
			}
			for _, set := range sets[name] {
				for _, kv := range set.ToSlice() {
					if !strings.Contains(text, string(kv.Key)) {
						t.Errorf("doc.go says nothing of %s, which %s has", kv.Key, name)
					}
				}
			}
		}
	})
}

func TestNoMetricCarriesAnErrorsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		program(&p)
		for name, sets := range points(produce(t, m)) {
			for _, set := range sets {
				if s := set.Encoded(attribute.DefaultEncoder()); strings.Contains(s, "secret") || strings.Contains(s, "1064") {
					t.Errorf("%s has %s", name, s)
				}
			}
		}
	})
}

func TestTimeoutsOfAPoolThatIsNotWatchedAreThoseOfItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		late := func() {
			asked := profiler.Now()
			time.Sleep(ms)
			p.WaitFailed(context.Background(), shop, asked, profiler.Now(), context.DeadlineExceeded)
			p.WaitFailed(context.Background(), shop, asked, profiler.Now(), context.Canceled)
		}
		late()
		late()
		if n := counted(produce(t, m)["db.client.connection.timeouts"]); n != 2 {
			t.Errorf("%d time-outs, want 2", n)
		}
		p.WatchPool("orders", func() profiler.PoolStats { return profiler.PoolStats{Timeouts: 5, TimeoutsKnown: true} })
		if n := counted(produce(t, m)["db.client.connection.timeouts"]); n != 5 {
			t.Errorf("%d time-outs of a pool that counts 5 itself", n)
		}
	})
}

// Who waits at a pool that doesn't count it is known where the callers say when they ask.
func TestPendingRequestsOfAPoolThatDoesNotCountThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pending = "db.client.connection.pending_requests"
		var p profiler.Profiler
		var asker profiler.Asker
		m := otelmetric.New(&p)
		c := p.NewConn(shop, profiler.RolePool)
		c.Ready(context.Background())
		if _, ok := produce(t, m)[pending]; ok {
			t.Error("nobody can know, and it is told")
		}
		for range 2 { // the first tells whose they are
			ctx := asker.Asked(context.Background())
			c.CheckedOut(ctx, 0, 0)
			asker.Ended(ctx, nil)
			c.CheckedIn(0)
		}
		if n, ok := produce(t, m)[pending]; !ok || counted(n) != 0 {
			t.Errorf("%+v, want 0", n)
		}
		var waiting [3]context.Context
		for i := range waiting {
			waiting[i] = asker.Asked(context.Background())
		}
		if n := counted(produce(t, m)[pending]); n != 3 {
			t.Errorf("%d, want 3", n)
		}
		c.CheckedOut(waiting[0], 0, 0)
		if n := counted(produce(t, m)[pending]); n != 2 {
			t.Errorf("%d, want 2", n)
		}
		p.WatchPool("orders", func() profiler.PoolStats { return profiler.PoolStats{Pending: 7, PendingKnown: true} })
		if n := counted(produce(t, m)[pending]); n != 7 {
			t.Errorf("%d of a pool that counts 7 itself", n)
		}
	})
}

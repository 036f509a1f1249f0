package otelmetric_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// keep is an exporter that keeps how many queries and creates each export tells of.
type keep struct {
	sdkmetric.Exporter
	mu       sync.Mutex
	t        *testing.T
	queries  []uint64
	shutdown bool
}

func (k *keep) Temporality(i sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(i)
}

func (k *keep) Aggregation(i sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(i)
}

func (k *keep) Export(_ context.Context, rm *metricdata.ResourceMetrics) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queries = append(k.queries, counted(byName(k.t, rm.ScopeMetrics)["connprof.query.duration"]))
	return nil
}

func (k *keep) ForceFlush(context.Context) error { return nil }
func (k *keep) Shutdown(context.Context) error   { k.shutdown = true; return nil }

func TestAPeriodicReaderExportsWhatHappenedInEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		m.Temporality = metricdata.DeltaTemporality
		k := &keep{t: t}
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(k,
			sdkmetric.WithInterval(10*time.Second), sdkmetric.WithProducer(m))))
		c := begin(&p, shop, profiler.RolePool)
		c.Ready(noCaller)
		for range 5 { // one each 5 s, the first two before the first export
			time.Sleep(4 * time.Second)
			query(context.Background(), c, 500*ms, nil)
		}
		if err := mp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		var sum uint64
		for _, n := range k.queries {
			sum += n
		}
		if len(k.queries) != 3 || sum != 5 || !k.shutdown { // two intervals and the last flush
			t.Errorf("exports told of %v queries", k.queries)
		}
	})
}

func TestTwoReadersSeeAllEachWithItsOwnProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		explicit, delta := otelmetric.New(&p), otelmetric.New(&p)
		delta.Temporality, delta.MaxSize = metricdata.DeltaTemporality, 320
		one, two := sdkmetric.NewManualReader(sdkmetric.WithProducer(explicit)), sdkmetric.NewManualReader(sdkmetric.WithProducer(delta))
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(one), sdkmetric.WithReader(two))
		collect := func(r sdkmetric.Reader) map[string]metricdata.Metrics {
			var rm metricdata.ResourceMetrics
			if err := r.Collect(context.Background(), &rm); err != nil {
				t.Fatal(err)
			}
			if len(rm.ScopeMetrics) != 1 {
				t.Fatalf("%d scopes", len(rm.ScopeMetrics))
			}
			if s := rm.ScopeMetrics[0].Scope; s.SchemaURL != semconv.SchemaURL || s.Name != "github.com/connprof/connprof/exporters/otelmetric" {
				t.Errorf("scope %+v", s)
			}
			return byName(t, rm.ScopeMetrics)
		}
		c := begin(&p, shop, profiler.RolePool)
		c.Ready(noCaller)
		for i := range uint64(3) {
			query(context.Background(), c, 5*ms, nil)
			a, b := collect(one)["connprof.query.duration"], collect(two)["connprof.query.duration"]
			if n := counted(a); n != i+1 {
				t.Errorf("cumulative: %d queries, want %d", n, i+1)
			}
			if n := counted(b); n != 1 {
				t.Errorf("delta: %d queries, want 1", n)
			}
			if _, ok := a.Data.(metricdata.Histogram[float64]); !ok {
				t.Errorf("the first reader has %T", a.Data)
			}
			if _, ok := b.Data.(metricdata.ExponentialHistogram[float64]); !ok {
				t.Errorf("the second reader has %T", b.Data)
			}
		}
		if err := mp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCollectingWhileConnectionsAreBusyLosesAndDoublesNothing(t *testing.T) {
	var p profiler.Profiler
	total, delta := otelmetric.New(&p), otelmetric.New(&p)
	delta.Temporality = metricdata.DeltaTemporality
	const workers, each = 4, 2000
	var busy sync.WaitGroup
	for range workers {
		busy.Go(func() {
			c := p.NewConn(shop, profiler.RolePool)
			c.Ready(noCaller)
			for range each {
				query(context.Background(), c, 0, nil)
			}
			c.Closed(profiler.CloseIdleTime, nil)
		})
	}
	stop, collected := make(chan struct{}), make(chan uint64)
	go func() {
		var sum uint64
		for {
			select {
			case <-stop:
				collected <- sum
				return
			default:
				sum += counted(produce(t, delta)["connprof.query.duration"])
			}
		}
	}()
	busy.Wait()
	close(stop)
	sum := <-collected
	sum += counted(produce(t, delta)["connprof.query.duration"])
	if n := counted(produce(t, total)["connprof.query.duration"]); n != workers*each || sum != n {
		t.Errorf("cumulative %d, deltas %d, want %d", n, sum, workers*each)
	}
}

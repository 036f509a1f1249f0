package otelmetric_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// collect reads a reader once.
func collect(t *testing.T, r sdkmetric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	return byName(t, rm.ScopeMetrics)
}

func register(t *testing.T, p *profiler.Profiler, mp *sdkmetric.MeterProvider) (stop func() error) {
	t.Helper()
	stop, err := otelmetric.Register(p, mp)
	if err != nil {
		t.Fatal(err)
	}
	return stop
}

// What a reader gets of a Producer alone, and of a Producer and instruments together, is the same.
func TestInstrumentsAndProducerTogetherTellWhatAProducerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		alone, beside := otelmetric.New(&p), otelmetric.New(&p)
		beside.WithoutConnections = true
		reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(beside))
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		stop := register(t, &p, mp)
		program(&p)
		got, want := collect(t, reader), produce(t, alone)
		for name := range want {
			metricdatatest.AssertEqual(t, want[name], got[name], metricdatatest.IgnoreTimestamp())
		}
		if len(got) != len(want) {
			t.Errorf("%d metrics, want %d", len(got), len(want))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		program(&p)
		after := collect(t, reader)
		for _, name := range []string{"db.client.connection.create_time", "connprof.connection.phase.duration", "connprof.connection.dials"} {
			if counted(after[name]) > counted(got[name]) {
				t.Errorf("%s goes on after stop", name)
			}
		}
		if counted(after["db.client.operation.duration"]) == counted(got["db.client.operation.duration"]) {
			t.Error("the Producer has ended, too")
		}
	})
}

// C34: 1, 5 and 50 ms fall into buckets of their own, by default and without a view.
func TestDurationsOfMillisecondsAreToldApartByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		produced, instruments := sdkmetric.NewManualReader(sdkmetric.WithProducer(otelmetric.New(&p))), sdkmetric.NewManualReader()
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(produced))
		register(t, &p, sdkmetric.NewMeterProvider(sdkmetric.WithReader(instruments)))
		for _, d := range []time.Duration{1 * ms, 5 * ms, 50 * ms} {
			asked := profiler.Now()
			c := begin(&p, shop, profiler.RolePool, step{profiler.Connect, d})
			c.Ready(context.Background())
			c.CheckedOut(context.Background(), asked, profiler.Now())
			query(context.Background(), c, d, nil)
			c.CheckedIn(profiler.Now())
		}
		check := func(name string, m metricdata.Metrics) {
			h, ok := m.Data.(metricdata.Histogram[float64])
			if !ok {
				t.Fatalf("%s is %T", name, m.Data)
			}
			point := h.DataPoints[0]
			if used := len(point.BucketCounts) - count(point.BucketCounts, 0); used < min(3, int(point.Count)) || !slices.Equal(point.Bounds, otelmetric.DefaultBoundaries) {
				t.Errorf("%s: %d buckets in use of %v", name, used, point.Bounds)
			}
		}
		checked := 0
		for _, r := range []sdkmetric.Reader{produced, instruments} {
			for name, m := range collect(t, r) {
				if m.Unit == "s" {
					check(name, m)
					checked++
				}
			}
		}
		if checked != 7+2 {
			t.Errorf("%d histograms checked", checked)
		}
	})
}

func count(ns []uint64, n uint64) (times int) {
	for _, m := range ns {
		if m == n {
			times++
		}
	}
	return times
}

func TestAViewMakesInstrumentsExponential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		reader := sdkmetric.NewManualReader()
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Name: "connprof.connection.phase.duration"},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 320, MaxScale: 4}},
		)))
		register(t, &p, mp)
		for i := range 200 {
			begin(&p, shop, profiler.RolePool, step{profiler.TLS, time.Duration(i*i+1) * time.Microsecond}).Ready(context.Background())
		}
		h, ok := collect(t, reader)["connprof.connection.phase.duration"].Data.(metricdata.ExponentialHistogram[float64])
		if !ok {
			t.Fatal("the view was not used")
		}
		got := h.DataPoints[0]
		_, offset, counts := p.Report().Endpoints[0].Distribution(profiler.Measure(profiler.TLS), profiler.OK).Buckets()
		if got.Scale != 4 || int(got.PositiveBucket.Offset) != offset || !slices.Equal(got.PositiveBucket.Counts, counts) {
			t.Errorf("scale %d offset %d %v, our own %d %v", got.Scale, got.PositiveBucket.Offset, got.PositiveBucket.Counts, offset, counts)
		}
	})
}

func TestACreateUnderASampledSpanIsAnExemplar(t *testing.T) {
	var p profiler.Profiler
	reader := sdkmetric.NewManualReader()
	register(t, &p, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	p.NewConn(shop, profiler.RolePool).Ready(under(7, trace.FlagsSampled))
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	h := collect(t, reader)["db.client.connection.create_time"].Data.(metricdata.Histogram[float64])
	want := trace.SpanContextFromContext(under(7, trace.FlagsSampled)).TraceID()
	if es := h.DataPoints[0].Exemplars; len(es) != 1 || trace.TraceID(es[0].TraceID) != want {
		t.Errorf("%+v", es)
	}
}

func TestInstrumentsSeriesAreBounded(t *testing.T) {
	const endpoints = 60
	p := profiler.Profiler{MaxEndpoints: endpoints}
	reader := sdkmetric.NewManualReader()
	register(t, &p, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0)))
	busy(&p, endpoints, 1)
	at, _ := series(points(collect(t, reader)))
	busy(&p, 4*endpoints, 1)
	for i := range 1000 {
		c := p.NewConn(shop, profiler.RolePool)
		c.Fail(noCaller, fmt.Errorf("attempt %d", i))
	}
	over, values := series(points(collect(t, reader)))
	const each = 13 // points of one endpoint
	if at > endpoints*each+10 || over > at+2*each {
		t.Errorf("%d points for %d endpoints, %d for more", at, endpoints, over)
	}
	for key, vs := range values {
		if len(vs) > endpoints+1 {
			t.Errorf("%s has %d values", key, len(vs))
		}
	}
}

func TestRegisterWithoutAProfilerOrAnSDK(t *testing.T) {
	stop, err := otelmetric.Register(nil, nil)
	if err != nil || stop() != nil {
		t.Error("a nil Profiler has nothing to register")
	}
	var p profiler.Profiler
	stop, err = otelmetric.Register(&p, nil) // the global one, which is none
	if err != nil {
		t.Error(err)
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := p.Report().SinkPanics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestBoundsOfARecordedCreatesAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	cost := func(readers ...sdkmetric.Option) float64 {
		var p profiler.Profiler
		stop := register(t, &p, sdkmetric.NewMeterProvider(readers...))
		defer stop()
		p.MaxConns = 1 // so that the list doesn't grow
		create := func() {
			c := p.NewConn(shop, profiler.RolePool)
			c.Cut(profiler.TLS, profiler.Now())
			c.Ready(noCaller)
			c.Closed(profiler.CloseIdleTime, nil)
		}
		create()
		return testing.AllocsPerRun(1000, create)
	}
	if off, on := cost(), cost(sdkmetric.WithReader(sdkmetric.NewManualReader())); on > off {
		t.Errorf("%g allocations a create with instruments, %g without a reader", on, off)
	}
}

package otelmetric_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// queried gives p reused queries of exactly these durations, for which no time need pass.
func queried(p *profiler.Profiler, ds ...time.Duration) {
	ctx := context.Background()
	c := p.NewConn(shop, profiler.RolePool)
	c.Ready(noCaller)
	query(ctx, c, 0, nil) // the first one
	for _, d := range ds {
		at := profiler.Now()
		o := c.Begin(ctx, profiler.OpExec, at)
		o.End(ctx, at.Add(d), nil)
	}
}

// reused is the one point of connprof.query.duration on reused connections that went well.
func reused[P any](t *testing.T, points []P, of func(P) bool) P {
	t.Helper()
	i := slices.IndexFunc(points, of)
	if i < 0 {
		t.Fatal("no point of reused queries")
	}
	return points[i]
}

func exponential(t *testing.T, m *otelmetric.Producer) metricdata.ExponentialHistogramDataPoint[float64] {
	t.Helper()
	data := produce(t, m)["connprof.query.duration"].Data.(metricdata.ExponentialHistogram[float64])
	return reused(t, data.DataPoints, func(p metricdata.ExponentialHistogramDataPoint[float64]) bool {
		v, _ := p.Attributes.Value("connprof.connection.reused")
		return v.AsBool()
	})
}

func explicit(t *testing.T, m *otelmetric.Producer) metricdata.HistogramDataPoint[float64] {
	t.Helper()
	data := produce(t, m)["connprof.query.duration"].Data.(metricdata.Histogram[float64])
	return reused(t, data.DataPoints, func(p metricdata.HistogramDataPoint[float64]) bool {
		v, _ := p.Attributes.Value("connprof.connection.reused")
		return v.AsBool()
	})
}

// sdkHistogram is what the SDK's own instrument makes of ds.
func sdkHistogram(t *testing.T, a sdkmetric.Aggregation, ds []time.Duration) metricdata.Aggregation {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader),
		sdkmetric.WithView(sdkmetric.NewView(sdkmetric.Instrument{Name: "*"}, sdkmetric.Stream{Aggregation: a})))
	h, err := mp.Meter("test").Float64Histogram("h")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		h.Record(context.Background(), d.Seconds())
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	return rm.ScopeMetrics[0].Metrics[0].Data
}

// logNormal draws n durations around 2 ms, none of them outside the regular buckets.
func logNormal(n int) []time.Duration {
	rnd := rand.New(rand.NewPCG(1, 2))
	ds := make([]time.Duration, n)
	for i := range ds {
		ds[i] = min(max(time.Duration(2e6*math.Exp(1.2*rnd.NormFloat64())), time.Microsecond), 256*time.Second)
	}
	return ds
}

func TestExponentialBucketsAreTheSDKsAtTheSameScale(t *testing.T) {
	many := 200_000
	if raceEnabled { // numbers are what this is about
		many = 20_000
	}
	for _, tt := range []struct {
		maxSize int32
		samples int
	}{{320, many}, {20, many}, {449, 5000}, {160, 5000}, {80, 5000}, {40, 5000}, {5, 5000}, {2, 5000}} {
		ds, maxSize := logNormal(tt.samples), tt.maxSize
		var p profiler.Profiler
		queried(&p, ds...)
		m := otelmetric.New(&p)
		m.MaxSize = int(maxSize)
		got := exponential(t, m)
		data := sdkHistogram(t, sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: maxSize, MaxScale: 4}, ds)
		want := data.(metricdata.ExponentialHistogram[float64]).DataPoints[0]
		if got.Scale != want.Scale || got.ZeroCount != want.ZeroCount || got.Count != want.Count {
			t.Errorf("MaxSize %d: scale %d zero %d count %d, the SDK has %d %d %d", maxSize,
				got.Scale, got.ZeroCount, got.Count, want.Scale, want.ZeroCount, want.Count)
		}
		lo, n := want.PositiveBucket.Offset, len(want.PositiveBucket.Counts)
		if got.PositiveBucket.Offset != lo || !slices.Equal(got.PositiveBucket.Counts, want.PositiveBucket.Counts) {
			t.Errorf("MaxSize %d: buckets from %d: %v\nthe SDK has from %d: %v", maxSize,
				got.PositiveBucket.Offset, got.PositiveBucket.Counts, lo, want.PositiveBucket.Counts)
		}
		if n > int(maxSize) {
			t.Errorf("MaxSize %d: %d buckets", maxSize, n)
		}
		if got.Min != want.Min || got.Max != want.Max || math.Abs(got.Sum-want.Sum) > 1e-9*want.Sum {
			t.Errorf("MaxSize %d: min %v max %v sum %v, the SDK has %v %v %v", maxSize, got.Min, got.Max, got.Sum, want.Min, want.Max, want.Sum)
		}
	}
}

func TestExplicitBucketsAreTheSDKsUpToTheRelativeError(t *testing.T) {
	ds := logNormal(20_000)
	var p profiler.Profiler
	queried(&p, ds...)
	m := otelmetric.New(&p)
	got := explicit(t, m)
	if !slices.Equal(got.Bounds, otelmetric.DefaultBoundaries) || got.Count != uint64(len(ds)) {
		t.Fatalf("bounds %v, count %d", got.Bounds, got.Count)
	}
	below := func(bound float64) (n uint64) {
		for _, d := range ds {
			if d.Seconds() <= bound {
				n++
			}
		}
		return n
	}
	var sum uint64
	for i, b := range got.Bounds {
		sum += got.BucketCounts[i]
		if least, most := below(b*(1-profiler.RelativeError)), below(b*(1+profiler.RelativeError)); sum < least || sum > most {
			t.Errorf("%d samples are at most %g s, want %d to %d", sum, b, least, most)
		}
	}
	// Where the bounds are edges of the buckets, nothing is off.
	m = otelmetric.New(&p)
	for i := -12; i < 4; i++ {
		m.Boundaries = append(m.Boundaries, math.Exp2(float64(i)))
	}
	data := sdkHistogram(t, sdkmetric.AggregationExplicitBucketHistogram{Boundaries: m.Boundaries}, ds)
	want := data.(metricdata.Histogram[float64]).DataPoints[0]
	if got := explicit(t, m); !slices.Equal(got.BucketCounts, want.BucketCounts) {
		t.Errorf("at powers of two: %v, the SDK has %v", got.BucketCounts, want.BucketCounts)
	}
}

// C34: boundaries meant for milliseconds put all of these into one bucket.
func TestOneFiveAndFiftyMillisecondsAreThreeBuckets(t *testing.T) {
	var p profiler.Profiler
	queried(&p, 1*ms, 5*ms, 50*ms)
	used := func(counts []uint64) (n int) {
		for _, c := range counts {
			if c > 0 {
				n++
			}
		}
		return n
	}
	m := otelmetric.New(&p)
	if n := used(explicit(t, m).BucketCounts); n != 3 {
		t.Errorf("explicit: %d buckets are used, want 3", n)
	}
	m.MaxSize = 160
	if n := used(exponential(t, m).PositiveBucket.Counts); n != 3 {
		t.Errorf("exponential: %d buckets are used, want 3", n)
	}
}

func TestWhatLiesOutsideTheRegularBucketsIsCounted(t *testing.T) {
	var p profiler.Profiler
	queried(&p, 0, 100, 953, 954, 300*time.Second, time.Hour)
	m := otelmetric.New(&p)
	m.MaxSize = 449
	e := exponential(t, m)
	if e.Scale != 4 || e.ZeroCount != 3 || e.ZeroThreshold != profiler.BucketZero || e.Count != 6 {
		t.Errorf("exponential: %+v", e)
	}
	if c := e.PositiveBucket; c.Offset != -320 || len(c.Counts) != 449 || c.Counts[0] != 1 || c.Counts[448] != 2 {
		t.Errorf("exponential: %+v", e)
	}
	m = otelmetric.New(&p)
	m.Boundaries = []float64{0, 0.5e-6, 1e-6, 256, 1000}
	if x := explicit(t, m); !slices.Equal(x.BucketCounts, []uint64{3, 0, 1, 0, 2, 0}) || x.Count != 6 {
		t.Errorf("explicit: %v", x.BucketCounts)
	}
}

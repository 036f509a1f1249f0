package profiler

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// otelIndex is the bucket index that OpenTelemetry's data model (metrics, "Exponential Buckets") gives a value in seconds at scale 4:
// bucket i holds (2^(i/16), 2^((i+1)/16)].
func otelIndex(d time.Duration) int {
	frac, exp := math.Frexp(float64(d) / 1e9) // value = frac · 2^exp, 0.5 <= frac < 1
	if frac == 0.5 {
		return (exp-1)*16 - 1 // an exact power of two is the last value of its bucket
	}
	return exp*16 + int(math.Ceil(math.Log2(frac)*16)) - 1
}

// wantBucket is otelIndex as an index of our array: the regular buckets begin at 2^-20 s, with one below and one above.
func wantBucket(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return min(max(otelIndex(d)+20*16+1, 0), 28*16+1)
}

func TestBucketsAreOpenTelemetrysAtScale4(t *testing.T) {
	check := func(d time.Duration) {
		if got, want := bucketOf(d), wantBucket(d); got != want {
			t.Fatalf("bucketOf(%d ns) = %d, want %d", d, got, want)
		}
	}
	for d := time.Duration(-2); d < 200_000; d++ {
		check(d)
	}
	for k := range 63 { // all powers of two, in nanoseconds and (where whole) in seconds, and their neighbours
		for _, v := range []time.Duration{1 << k, time.Duration(math.Exp2(float64(k-20)) * 1e9)} {
			for d := v - 2; d <= v+2; d++ {
				check(d)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	n := 3_000_000
	if raceEnabled || testing.Short() {
		n = 100_000
	}
	for range n {
		check(time.Duration(rnd.Int64() >> rnd.IntN(63)))
	}
	check(math.MaxInt64)
	check(math.MinInt64)
}

// Exactly, in whole numbers: d lies above the edge 2^(i/16) s where d^16 > 2^i · (10^9)^16.
func TestBucketEdgesAreExactToTheNanosecond(t *testing.T) {
	sixteen := big.NewInt(16)
	unit := new(big.Int).Exp(big.NewInt(1e9), sixteen, nil)
	above := func(d time.Duration, i int) bool {
		left, right := new(big.Int).Exp(big.NewInt(int64(d)), sixteen, nil), new(big.Int).Set(unit)
		if i >= 0 {
			right.Lsh(right, uint(i))
		} else {
			left.Lsh(left, uint(-i))
		}
		return left.Cmp(right) > 0
	}
	for i := -20 * 16; i <= 8*16; i++ {
		edge := time.Duration(math.Exp2(float64(i)/16) * 1e9)
		for d := edge - 2; d <= edge+2; d++ {
			got := bucketOf(d) - 1 - 20*16 // as an OpenTelemetry index
			if above(d, i) != (got >= i) {
				t.Errorf("%d ns: above edge %d is %t, but its bucket is %d", d, i, above(d, i), got)
			}
		}
	}
}

func TestRelativeErrorBoundsEachValue(t *testing.T) {
	var worst float64
	check := func(d time.Duration) {
		e := math.Abs(float64(middle(bucketOf(d))-d)) / float64(d)
		worst = max(worst, e)
		if e > RelativeError {
			t.Fatalf("%d ns is taken for %d ns: %.5f off, more than %.5f", d, middle(bucketOf(d)), e, RelativeError)
		}
	}
	for d := time.Microsecond; d <= 200*time.Microsecond; d++ {
		check(d)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		check(time.Duration(1e3 * math.Pow(256e6, rnd.Float64()))) // 1 µs … 256 s
	}
	check(256 * time.Second)
	t.Logf("worst %.5f", worst)
}

func TestQuantilesAreWithinRelativeError(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for name, draw := range map[string]func() time.Duration{
		"log-uniform over all of it": func() time.Duration { return time.Duration(1e3 * math.Pow(256e6, rnd.Float64())) },
		"around one millisecond":     func() time.Duration { return time.Duration(1e6 + 1e5*rnd.NormFloat64()) },
		"two modes": func() time.Duration {
			if rnd.IntN(10) == 0 {
				return time.Duration(5e6 + 1e6*rnd.Float64())
			}
			return time.Duration(2e5 + 1e4*rnd.Float64())
		},
		"one value": func() time.Duration { return 1234567 },
	} {
		var h lazyHistogram
		var all []time.Duration
		for range 5000 {
			d := draw()
			h.record(d)
			all = append(all, d)
		}
		slices.Sort(all)
		var d Distribution
		h.addTo(&d)
		for _, q := range []float64{0, 0.001, 0.01, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1} {
			want := all[max(int(math.Ceil(q*5000)), 1)-1]
			if got := d.Quantile(q); math.Abs(float64(got-want)) > RelativeError*float64(want) {
				t.Errorf("%s: quantile %g = %v, want %v", name, q, got, want)
			}
		}
		if d.Min != all[0] || d.Max != all[len(all)-1] || d.Quantile(1) > d.Max || d.Quantile(0) < d.Min {
			t.Errorf("%s: min %v max %v, want %v and %v", name, d.Min, d.Max, all[0], all[len(all)-1])
		}
	}
}

func TestCountSumMinAndMaxAreExactUnderConcurrency(t *testing.T) {
	var h lazyHistogram
	var wg sync.WaitGroup
	const workers, each = 8, 5000
	stop := make(chan struct{})
	go func() { // what is counted is in sum, min and max
		for {
			select {
			case <-stop:
				return
			default:
			}
			var d Distribution
			if h.addTo(&d); d.Count > 0 && (d.Min < 7 || d.Max < d.Min || d.Sum < time.Duration(d.Count)*7) {
				t.Errorf("a snapshot counts %d, but has min %v, max %v, sum %v", d.Count, d.Min, d.Max, d.Sum)
				return
			}
		}
	}()
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				h.record(time.Duration(7 + w*each + i))
			}
		})
	}
	wg.Wait()
	close(stop)
	var d Distribution
	h.addTo(&d)
	n := time.Duration(workers * each)
	if sum := n*7 + n*(n-1)/2; d.Count != uint64(n) || d.Sum != sum || d.Min != 7 || d.Max != 6+n {
		t.Errorf("count %d sum %d min %d max %d, want %d %d 7 %d", d.Count, d.Sum, d.Min, d.Max, n, sum, 6+n)
	}
}

func TestZeroNegativeAndHugeValues(t *testing.T) {
	dist := func(ds ...time.Duration) Distribution {
		var h lazyHistogram
		for _, d := range ds {
			h.record(d)
		}
		var d Distribution
		h.addTo(&d)
		return d
	}
	if d := dist(0); d.Count != 1 || d.Min != 0 || d.Max != 0 || d.Quantile(0.5) != 0 {
		t.Errorf("zero: %+v", d.Count)
	}
	if d := dist(5, -3); d.Count != 2 || d.Min != 0 || d.Max != 5 || d.Sum != 5 {
		t.Errorf("a negative duration doesn't count as 0: count %d min %d max %d sum %d", d.Count, d.Min, d.Max, d.Sum)
	}
	if d := dist(math.MaxInt64); d.Count != 1 || d.Max < math.MaxInt64-1 || d.Min < math.MaxInt64-1 || d.Quantile(0.5) != d.Max {
		t.Errorf("huge: count %d min %d max %d p50 %d", d.Count, d.Min, d.Max, d.Quantile(0.5))
	}
	if d := dist(math.MaxInt64, math.MaxInt64, 1); d.Sum < 0 || d.Mean() < 0 {
		t.Errorf("the sum wraps: %d, mean %d", d.Sum, d.Mean())
	}
	if d := dist(300*time.Second, 400*time.Second); d.Quantile(0.5) != 400*time.Second {
		t.Errorf("above 256 s: %v, want the maximum", d.Quantile(0.5))
	}
	var none *Distribution
	if none.Mean() != 0 || none.Quantile(0.5) != 0 || none.Sub(nil).Count != 0 || new(Distribution).Quantile(0.9) != 0 {
		t.Error("nil and empty distributions are not 0")
	}
}

func TestMergeAndSubAreInverse(t *testing.T) {
	var h, g lazyHistogram
	h.record(0) // a minimum of 0 is one, too
	h.record(3 * time.Millisecond)
	var early Distribution
	h.addTo(&early)
	for i := range 100 {
		h.record(time.Duration(i+1) * time.Millisecond)
		g.record(time.Duration(i+1) * time.Millisecond)
	}
	var late, only Distribution
	h.addTo(&late)
	g.addTo(&only)
	d := late.Sub(&early)
	if d.Count != 100 || d.Sum != only.Sum || d.buckets != only.buckets || d.Quantile(0.5) != only.Quantile(0.5) {
		t.Errorf("Sub: count %d sum %v p50 %v, want %d %v %v", d.Count, d.Sum, d.Quantile(0.5), only.Count, only.Sum, only.Quantile(0.5))
	}
	d.Merge(&early)
	if *d != late {
		t.Errorf("Merge after Sub: count %d sum %v min %v max %v, want %d %v %v %v",
			d.Count, d.Sum, d.Min, d.Max, late.Count, late.Sum, late.Min, late.Max)
	}
	both := only
	both.Merge(&early)
	if both.Min != 0 || both.Max != 100*time.Millisecond || both.Count != 102 {
		t.Errorf("Merge: min %v max %v count %d", both.Min, both.Max, both.Count)
	}
	g.addTo(&early) // into one that has a minimum of 0 already
	if early.Min != 0 || early.Count != 102 {
		t.Errorf("addTo: min %v count %d, want 0 and 102", early.Min, early.Count)
	}
	before := both
	both.Merge(nil)
	both.Merge(new(Distribution))
	if both != before || *both.Sub(nil) != before {
		t.Error("nothing is not nothing")
	}
}

func BenchmarkRecord(b *testing.B) {
	b.Run("serial", func(b *testing.B) {
		var h lazyHistogram
		b.ReportAllocs()
		for i := range b.N {
			h.record(time.Duration(100_000 + i&0xffff))
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var h lazyHistogram
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				h.record(time.Duration(100_000 + i&0xffff))
			}
		})
	})
}

// A bucket's word holds about half a million, and a few thousand of those that are minutes long.
func TestBucketsThatAreFullLoseNothing(t *testing.T) {
	var h lazyHistogram
	var sum time.Duration
	for _, v := range []struct {
		d time.Duration
		n int
	}{{time.Millisecond, 1_200_000}, {100 * time.Second, 20_000}, {300 * time.Second, 3}} {
		for range v.n {
			h.record(v.d)
		}
		sum += v.d * time.Duration(v.n)
	}
	var d Distribution
	h.addTo(&d)
	if d.Count != 1_220_003 || d.Sum != sum {
		t.Errorf("%d, %v in all; want 1220003, %v", d.Count, d.Sum, sum)
	}
}

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
)

// counted is the native histogram of ds at a scale, by the definition of its buckets: index i holds (2^((i-1)/2^scale), 2^(i/2^scale)].
func counted(scale int32, ds []time.Duration) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Schema: scale, ZeroThreshold: 1e-6}
	counts := map[int]float64{}
	first, last := math.MaxInt, math.MinInt
	for _, d := range ds {
		i := int(math.Ceil(math.Log2(d.Seconds()) * math.Exp2(float64(scale))))
		counts[i]++
		first, last = min(first, i), max(last, i)
		h.Count++
		h.Sum += d.Seconds()
	}
	h.PositiveSpans = []histogram.Span{{Offset: int32(first), Length: uint32(last - first + 1)}}
	for i := first; i <= last; i++ {
		h.PositiveBuckets = append(h.PositiveBuckets, counts[i])
	}
	return h
}

// drawn are n sorted durations of at least rtt.
func drawn(rnd *rand.Rand, n int, rtt time.Duration) []time.Duration {
	ds := make([]time.Duration, n)
	for i := range ds {
		ds[i] = rtt + time.Duration(float64(time.Millisecond)*math.Exp(rnd.NormFloat64()))
	}
	slices.Sort(ds)
	return ds
}

// exposed is what the Collector would expose of a fleet that made these durations.
func exposed(scale int32, told []exact) *exposition {
	e := &exposition{at: time.Unix(1_800_000_000, 0)}
	for i, m := range fleet {
		e.series = append(e.series, series{labels.FromStrings("__name__", "connprof_connection_phase_duration_seconds", "job", "shop",
			"instance", m.name, "connprof_phase", "tls", "connprof_outcome", "ok", "connprof_role", "pool"), counted(scale, told[i].TLS)})
	}
	return e
}

func drawnFleet(rnd *rand.Rand) (told []exact) {
	for _, m := range fleet {
		told = append(told, exact{TLS: drawn(rnd, m.connections, m.rtt)})
	}
	return told
}

func TestTheMiddleOfTheBucketIsWithinItsBound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	bound := math.Sqrt(math.Exp2(1.0/16)) - 1
	for n := range 200 {
		ds := drawn(rnd, 1+n, time.Millisecond)
		h := counted(4, ds)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 1} {
			exact := exactQuantile(q, ds).Seconds()
			b, ok := bucketOf(q, h)
			if off := math.Abs(middle(b)/exact - 1); !ok || off > bound+1e-9 {
				t.Errorf("%d durations: p%g is %g, the histogram says %g", n, 100*q, exact, middle(b))
			}
		}
	}
}

func TestAFleetThatCountsRightHasNothingWrong(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		told := drawnFleet(rnd)
		r, err := compare(context.Background(), exposed(4, told), told)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.wrong) > 0 || r.err() != nil {
			t.Error(r.wrong)
		}
		var out strings.Builder
		r.print(&out)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := lines[len(lines)-1]
		if !strings.HasPrefix(last, "fleet: p50 ") || !strings.HasSuffix(last, " 670 of 670 handshakes of 3 processes, 0 failures") {
			t.Error(last)
		}
	}
}

func TestWhatIsWrongIsFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		// break changes what is exposed or what the processes told.
		change func(e *exposition, told []exact)
		want   string
	}{
		{"a handshake is not counted", func(e *exposition, _ []exact) {
			h := e.series[1].h
			i := slices.IndexFunc(h.PositiveBuckets, func(n float64) bool { return n > 0 })
			h.PositiveBuckets[i]--
			h.Count--
		}, "middle: count 249"},
		{"a handshake is in the next bucket", func(e *exposition, _ []exact) {
			b := e.series[0].h.PositiveBuckets
			b[0]--
			b[1]++
		}, "near: 1"},
		{"a process told of one too few", func(_ *exposition, told []exact) { told[2].TLS = told[2].TLS[1:] }, "far: 119 handshakes for 120"},
		{"the buckets are coarse", func(e *exposition, told []exact) { *e = *exposed(1, told) }, "fleet: buckets of scale 1"},
		{"coarse buckets make a quantile wrong", func(e *exposition, told []exact) { *e = *exposed(-1, told) }, "p50: "},
		{"a process is missing", func(e *exposition, _ []exact) { e.series = e.series[:2] }, "far: no histogram"},
		{"a duration is shorter than its round trip", func(e *exposition, told []exact) {
			told[2].TLS[0] = 20 * time.Millisecond
			*e = *exposed(4, told)
		}, "far: a handshake of 20ms over a round trip of 25ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := drawnFleet(rand.New(rand.NewPCG(5, 6)))
			e := exposed(4, told)
			tt.change(e, told)
			r, err := compare(context.Background(), e, told)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(r.wrong, func(s string) bool { return strings.HasPrefix(s, tt.want) }) || r.err() == nil {
				t.Errorf("%q is not said: %q", tt.want, r.wrong)
			}
		})
	}
}

func TestWhatPrometheusCannotAnswerIsAnError(t *testing.T) {
	told := drawnFleet(rand.New(rand.NewPCG(7, 8)))
	for name, e := range map[string]*exposition{
		"nothing is exposed":     {at: time.Now()},
		"a process is not known": {at: time.Now(), series: []series{relabeled(exposed(4, told).series[0], "stranger")}},
	} {
		if r, err := compare(context.Background(), e, told); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, err := compare(context.Background(), exposed(4, told), make([]exact, len(fleet))); err == nil {
		t.Error("no handshakes are no error")
	}
}

func relabeled(s series, instance string) series {
	return series{labels.NewBuilder(s.labels).Set("instance", instance).Labels(), s.h}
}

func ExampleexactQuantile() {
	ds := []time.Duration{1, 2, 3, 4, 5}
	fmt.Println(exactQuantile(0.5, ds), exactQuantile(0.8, ds), exactQuantile(0.99, ds))
	// Output: 3ns 4ns 5ns
}

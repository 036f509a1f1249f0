package otelmetric_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// A span of time that points cover.
type span struct{ from, to time.Time }

// spans are those of all points of one metric.
func spans(t *testing.T, m metricdata.Metrics) (all map[span]int, temporality metricdata.Temporality) {
	t.Helper()
	all = map[span]int{}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		temporality = d.Temporality
		for _, p := range d.DataPoints {
			all[span{p.StartTime, p.Time}]++
		}
	case metricdata.Histogram[float64]:
		temporality = d.Temporality
		for _, p := range d.DataPoints {
			all[span{p.StartTime, p.Time}]++
		}
	case metricdata.ExponentialHistogram[float64]:
		temporality = d.Temporality
		for _, p := range d.DataPoints {
			all[span{p.StartTime, p.Time}]++
		}
	default:
		t.Fatalf("%s is a %T", m.Name, d)
	}
	return all, temporality
}

// covers checks that all points of all metrics cover one span of time: since the start for numbers that go up and down.
func covers(t *testing.T, all map[string]metricdata.Metrics, want metricdata.Temporality, from, start, to time.Time) {
	t.Helper()
	for name, m := range all {
		got, temporality := spans(t, m)
		want, from := want, from
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && !sum.IsMonotonic {
			want, from = metricdata.CumulativeTemporality, start
		}
		if temporality != want {
			t.Errorf("%s is %v, want %v", name, temporality, want)
		}
		for s := range got {
			if !s.from.Equal(from) || !s.to.Equal(to) {
				t.Errorf("%s covers %v to %v, want %v to %v", name, s.from, s.to, from, to)
			}
		}
	}
}

func TestCumulativeGrowsAndDeltaStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		start := time.Now()
		total, delta := otelmetric.New(&p), otelmetric.New(&p)
		delta.Temporality, delta.MaxSize = metricdata.DeltaTemporality, 160

		time.Sleep(time.Second)
		program(&p)
		first := time.Now()
		for name, m := range map[string]*otelmetric.Producer{"cumulative": total, "delta": delta} {
			all := produce(t, m)
			if n := counted(all["connprof.query.duration"]); n != 2 {
				t.Errorf("%s: %d queries after the first run", name, n)
			}
			covers(t, all, map[string]metricdata.Temporality{
				"cumulative": metricdata.CumulativeTemporality, "delta": metricdata.DeltaTemporality,
			}[name], start, start, first)
		}

		time.Sleep(time.Second)
		c := begin(&p, shop, profiler.RolePool, step{profiler.Connect, 3 * ms})
		c.Ready(noCaller)
		query(context.Background(), c, 7*ms, nil)
		second := time.Now()
		all := produce(t, total)
		covers(t, all, metricdata.CumulativeTemporality, start, start, second)
		if q, d := counted(all["connprof.query.duration"]), counted(all["connprof.connection.dials"]); q != 3 || d != 4 {
			t.Errorf("cumulative: %d queries, %d dials, want 3 and 4", q, d)
		}
		all = produce(t, delta)
		covers(t, all, metricdata.DeltaTemporality, first, start, second)
		if q, d := counted(all["connprof.query.duration"]), counted(all["connprof.connection.dials"]); q != 1 || d != 1 {
			t.Errorf("delta: %d queries, %d dials, want 1 and 1", q, d)
		}
		query := all["connprof.query.duration"].Data.(metricdata.ExponentialHistogram[float64]).DataPoints[0]
		if _, known := query.Max.Value(); query.Sum != 0.007 || known { // 5 ms were counted there before
			t.Errorf("delta: sum %v, maximum known %t", query.Sum, known)
		}
		if n := counted(all["db.client.connection.count"]); n != 3 {
			t.Errorf("delta: the pool has %d connections, want 3", n)
		}
		if _, ok := all["connprof.connection.closed"]; ok {
			t.Error("delta: a close is there though nothing was closed")
		}

		time.Sleep(time.Second)
		all = produce(t, delta)
		for name := range all {
			if m, ok := all[name].Data.(metricdata.Sum[int64]); !ok || m.IsMonotonic {
				t.Errorf("delta: %s is there though nothing happened", name)
			}
		}
	})
}

func TestADeltaOfNewSamplesOnlyHasItsExtremes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		m.Temporality = metricdata.DeltaTemporality
		c := begin(&p, shop, profiler.RolePool)
		c.Ready(noCaller)
		produce(t, m)
		query(context.Background(), c, 7*ms, nil)
		point := produce(t, m)["connprof.query.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0]
		lo, ok := point.Min.Value()
		if hi, _ := point.Max.Value(); !ok || lo != 0.007 || hi != 0.007 {
			t.Errorf("minimum %v, maximum %v, known %t", lo, hi, ok)
		}
	})
}

func TestAProducerOfAProfilerThatHadBegunTellsAllSinceTheProcessBegan(t *testing.T) {
	var p profiler.Profiler
	queried(&p, 5*ms)
	before := time.Now()
	all := produce(t, otelmetric.New(&p))
	if n := counted(all["connprof.query.duration"]); n != 2 {
		t.Errorf("%d queries, want both", n)
	}
	all2, _ := spans(t, all["connprof.query.duration"])
	for s := range all2 {
		if !s.from.Before(before) || before.Sub(s.from) > time.Hour {
			t.Errorf("counting began at %v, %v before New", s.from, before.Sub(s.from))
		}
	}
}

func TestAContextThatIsDoneCostsNoInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		m.Temporality = metricdata.DeltaTemporality
		start := time.Now()
		program(&p)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if scopes, err := m.Produce(ctx); !errors.Is(err, context.Canceled) || scopes != nil {
			t.Errorf("got %v, %v", scopes, err)
		}
		time.Sleep(time.Second)
		all := produce(t, m)
		covers(t, all, metricdata.DeltaTemporality, start, start, time.Now())
		if n := counted(all["connprof.query.duration"]); n != 2 {
			t.Errorf("%d queries", n)
		}
	})
}

func TestAStoppedProducerTellsNothing(t *testing.T) {
	var p profiler.Profiler
	queried(&p, 5*ms)
	m := otelmetric.New(&p)
	produce(t, m)
	m.Stop()
	m.Stop()
	if all := produce(t, m); len(all) != 0 {
		t.Errorf("%d metrics", len(all))
	}
	if all := produce(t, otelmetric.New(nil)); len(all) != 0 {
		t.Errorf("a nil Profiler: %d metrics", len(all))
	}
}

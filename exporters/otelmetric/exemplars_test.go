package otelmetric_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// under returns a context with a span.
func under(id byte, flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{id}, SpanID: trace.SpanID{id}, TraceFlags: flags,
	}))
}

// traces are the exemplars of connprof.query.duration, as the traces' numbers with the durations.
func traces(m metricdata.Metrics) map[byte]time.Duration {
	all := map[byte]time.Duration{}
	var es []metricdata.Exemplar[float64]
	switch d := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			es = append(es, p.Exemplars...)
		}
	case metricdata.ExponentialHistogram[float64]:
		for _, p := range d.DataPoints {
			es = append(es, p.Exemplars...)
		}
	}
	for _, e := range es {
		if len(e.TraceID) == 16 && len(e.SpanID) == 8 && e.TraceID[0] == e.SpanID[0] {
			all[e.TraceID[0]] = time.Duration(e.Value*1e9 + 0.5)
		}
	}
	return all
}

func TestExemplarsAreTheLatestOfSampledTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x otelmetric.Exemplars
		p := profiler.Profiler{Sinks: []profiler.Sink{&x}}
		m, delta := otelmetric.New(&p), otelmetric.New(&p)
		m.Exemplars = &x
		delta.Exemplars, delta.MaxSize, delta.Temporality = &x, 160, metricdata.DeltaTemporality
		c := begin(&p, shop, profiler.RolePool)
		c.Ready(noCaller)
		query(context.Background(), c, 5*ms, nil)
		query(under(1, 0), c, 5*ms, nil)
		query(under(2, trace.FlagsSampled), c, 5*ms, nil)
		query(under(3, trace.FlagsSampled), c, 6*ms, nil) // within the same doubling
		query(under(4, trace.FlagsSampled), c, 50*ms, nil)
		query(under(5, trace.FlagsSampled), c, 5*ms, errors.New("secret"))
		want := fmt.Sprint(map[byte]time.Duration{3: 6 * ms, 4: 50 * ms, 5: 5 * ms})
		if got := fmt.Sprint(traces(produce(t, m)["connprof.query.duration"])); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := fmt.Sprint(traces(produce(t, delta)["connprof.query.duration"])); got != want {
			t.Errorf("delta: got %s, want %s", got, want)
		}
		want = fmt.Sprint(map[byte]time.Duration{3: 12 * ms, 4: 100 * ms, 5: 10 * ms}) // with their rows
		if got := fmt.Sprint(traces(produce(t, m)["db.client.operation.duration"])); got != want {
			t.Errorf("whole operations: got %s, want %s", got, want)
		}
		query(under(6, trace.FlagsSampled), c, 7*ms, nil)
		want = fmt.Sprint(map[byte]time.Duration{6: 7 * ms, 4: 50 * ms, 5: 5 * ms})
		if got := fmt.Sprint(traces(produce(t, m)["connprof.query.duration"])); got != want {
			t.Errorf("then: got %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(traces(produce(t, delta)["connprof.query.duration"])), "map[6:7ms]"; got != want {
			t.Errorf("then, delta: got %s, want %s", got, want)
		}
	})
}

func TestExemplarsAreBounded(t *testing.T) {
	var x otelmetric.Exemplars
	p := profiler.Profiler{Sinks: []profiler.Sink{&x}, MaxEndpoints: 1000}
	m := otelmetric.New(&p)
	m.Exemplars = &x
	for i := range 330 {
		c := p.NewConn(profiler.Endpoint{Address: fmt.Sprint(i)}, profiler.RolePool)
		c.Ready(noCaller)
		for range 50 {
			query(under(1, trace.FlagsSampled), c, 0, nil)
		}
	}
	n := 0
	for _, p := range produce(t, m)["connprof.query.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		if n += len(p.Exemplars); len(p.Exemplars) > 16 {
			t.Errorf("%d exemplars on one point", len(p.Exemplars))
		}
	}
	if n < 600 || n > 300*2*16 {
		t.Errorf("%d exemplars", n)
	}
}

func exemplarEvent() (*otelmetric.Exemplars, profiler.Event) {
	var keep capture
	p := profiler.Profiler{Sinks: []profiler.Sink{&keep}}
	queried(&p, 5*ms)
	return new(otelmetric.Exemplars), keep.last
}

// capture is a Sink that keeps the last first response.
type capture struct{ last profiler.Event }

func (k *capture) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindFirstResponse {
		k.last = e
	}
}

func TestBoundsKeepingAnExampleAllocatesNothing(t *testing.T) {
	x, e := exemplarEvent()
	for name, ctx := range map[string]context.Context{"not sampled": under(1, 0), "sampled": under(2, trace.FlagsSampled)} {
		x.Record(ctx, e)
		if n := testing.AllocsPerRun(1000, func() { x.Record(ctx, e) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

func TestExemplarsWantOnlyWhatIsSampled(t *testing.T) {
	var x otelmetric.Exemplars
	for _, tt := range []struct {
		ctx  context.Context
		k    profiler.Kind
		want bool
	}{
		{under(1, trace.FlagsSampled), profiler.KindFirstResponse, true},
		{under(1, trace.FlagsSampled), profiler.KindOperation, true},
		{under(1, 0), profiler.KindFirstResponse, false},
		{context.Background(), profiler.KindFirstResponse, false},
	} {
		if got := x.Wants(tt.ctx, tt.k, nil, 1); got != tt.want {
			t.Errorf("%v sampled %v: %v", tt.k, trace.SpanContextFromContext(tt.ctx).IsSampled(), got)
		}
	}
}

package otelmetric_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// One collection of all metrics; the Report of the same Profiler alone for comparison.
func BenchmarkCollection(b *testing.B) {
	for _, n := range []struct {
		name      string
		endpoints int
	}{{"1", 1}, {"300", 300}} {
		var p profiler.Profiler
		busy(&p, n.endpoints, 4) // one connection for each stripe of a series
		run := func(name string, m *otelmetric.Producer) {
			b.Run("endpoints="+n.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Produce(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("explicit", otelmetric.New(&p))
		m := otelmetric.New(&p)
		m.MaxSize = 160
		run("exponential", m)
		m = otelmetric.New(&p)
		m.Temporality = metricdata.DeltaTemporality
		run("delta", m)
		b.Run("endpoints="+n.name+"/report alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Report()
			}
		})
	}
}

// What a query costs on a Profiler that a Producer reads (nothing more than without), and with Exemplars.
func BenchmarkQuery(b *testing.B) {
	var x otelmetric.Exemplars
	for _, bm := range []struct {
		name  string
		sinks []profiler.Sink
		ctx   context.Context
	}{
		{"producer", nil, under(1, 0)},
		{"exemplars/unsampled", []profiler.Sink{&x}, under(1, 0)},
		{"exemplars/sampled", []profiler.Sink{&x}, under(1, trace.FlagsSampled)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			p := profiler.Profiler{Sinks: bm.sinks}
			m := otelmetric.New(&p)
			m.Exemplars = &x
			c := p.NewConn(shop, profiler.RolePool)
			c.Ready(noCaller)
			b.ReportAllocs()
			for b.Loop() {
				at := profiler.Now()
				o := c.Begin(bm.ctx, profiler.OpQuery, at)
				at = profiler.Now()
				o.Responded(bm.ctx, at, nil)
				o.End(bm.ctx, at, nil)
			}
			b.StopTimer()
			if _, err := m.Produce(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkExemplars(b *testing.B) {
	x, e := exemplarEvent()
	for _, bm := range []struct {
		name string
		ctx  context.Context
	}{{"unsampled", under(1, 0)}, {"sampled", under(2, trace.FlagsSampled)}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.Record(bm.ctx, e)
			}
		})
	}
}

package bench

import (
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// Profiler returns a Profiler for b's clients. When the benchmark function ends, b reports beside its own numbers, each where there is one:
//
//	create-ns/conn   median time to make a connection
//	tls-ns/conn      median of its TLS handshake
//	first-ns/query   median from a query's start to its first response, first on a connection
//	reused-ns/query  the same on a reused connection
//	conns/op         connections made per iteration
//	reuse-%          queries that ran on a reused connection
//
// All that the Profiler saw counts, what ran before the first iteration included. Medians are within profiler.RelativeError. Make a
// Profiler for each benchmark function: sub-benchmarks report what their own saw.
func Profiler(b *testing.B) *profiler.Profiler {
	p := new(profiler.Profiler)
	b.Cleanup(func() { Report(b, p) })
	return p
}

// Report adds p's numbers to b's result, for a Profiler that was made elsewhere. Call it after the last iteration: b.ResetTimer forgets
// them.
func Report(b *testing.B, p *profiler.Profiler) {
	t := sum(p.Report())
	for _, m := range []struct {
		measure profiler.Measure
		unit    string
	}{
		{profiler.MeasureCreate, "create-ns/conn"},
		{profiler.Measure(profiler.TLS), "tls-ns/conn"},
		{profiler.MeasureFirstQuery, "first-ns/query"},
		{profiler.MeasureReusedQuery, "reused-ns/query"},
	} {
		if d := t.distribution(m.measure); d.Count > 0 {
			b.ReportMetric(nanoseconds(d.Quantile(0.5)), m.unit)
		}
	}
	b.ReportMetric(float64(t.created)/float64(max(b.N, 1)), "conns/op")
	if t.queries() > 0 {
		b.ReportMetric(100*t.reuse(), "reuse-%")
	}
}

func nanoseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) }

// totals are sums over the pools' connections, of all endpoints.
type totals struct {
	reports       []*profiler.EndpointReport
	created       int64
	first, reused uint64
}

func sum(r profiler.Report) (t totals) {
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		if e.Role != profiler.RolePool.String() {
			continue
		}
		first, reused := e.Queries()
		t.reports = append(t.reports, e)
		t.created, t.first, t.reused = t.created+e.Created, t.first+first, t.reused+reused
	}
	return t
}

func (t *totals) distribution(m profiler.Measure) *profiler.Distribution {
	d := new(profiler.Distribution)
	for _, e := range t.reports {
		d.Merge(e.Distribution(m, profiler.OK))
	}
	return d
}

func (t *totals) queries() uint64 { return t.first + t.reused }

// reuse is the part of the queries that ran on a reused connection; 0 if there were none.
func (t *totals) reuse() float64 {
	if t.queries() == 0 {
		return 0
	}
	return float64(t.reused) / float64(t.queries())
}

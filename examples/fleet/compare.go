package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/prometheus/model/histogram"

	"github.com/connprof/connprof/profiler"
)

// What is asked of Prometheus. Over a time rather than since the beginning, rate(handshakes[5m]) takes the place of handshakes.
const (
	handshakes = `connprof_connection_phase_duration_seconds{connprof_phase="tls",connprof_outcome="ok",connprof_role="pool"}`
	merged     = `sum(` + handshakes + `)`
	byProcess  = `sum by (instance) (` + handshakes + `)`
)

var quantiles = [...]float64{0.50, 0.99}

// tolerance is what a quantile of the fleet may be off by.
const tolerance = 0.03

// errWrong says that the fleet's numbers are not the exact ones.
var errWrong = errors.New("fleet: the numbers are not the exact ones")

// A result is what the fleet's histograms say beside what is exact.
type result struct {
	exact     []exact                     // of each member, sorted
	processes []*histogram.FloatHistogram // of each member
	all       []time.Duration             // of all members, sorted
	fleet     *histogram.FloatHistogram   // merged by Prometheus' engine
	engine    [len(quantiles)]float64     // histogram_quantile of that
	wrong     []string
}

func compare(ctx context.Context, e *exposition, told []exact) (*result, error) {
	r := &result{exact: told, processes: make([]*histogram.FloatHistogram, len(fleet))}
	for i := range told {
		slices.Sort(told[i].TLS)
		r.all = append(r.all, told[i].TLS...)
	}
	slices.Sort(r.all)
	if len(r.all) == 0 {
		return nil, errors.New("fleet: no process made a TLS handshake")
	}
	whole, err := e.askOne(ctx, merged)
	if err != nil {
		return nil, err
	}
	if r.fleet = whole.H; r.fleet == nil {
		return nil, errors.New("fleet: " + merged + ": no native histogram")
	}
	each, err := e.ask(ctx, byProcess)
	if err != nil {
		return nil, err
	}
	for _, s := range each {
		i := slices.IndexFunc(fleet, func(m member) bool { return m.name == s.Metric.Get("instance") })
		if i < 0 {
			return nil, fmt.Errorf("fleet: %s: unknown process %v", byProcess, s.Metric)
		}
		r.processes[i] = s.H
	}
	for i, q := range quantiles {
		s, err := e.askOne(ctx, fmt.Sprintf("histogram_quantile(%g, %s)", q, merged))
		if err != nil {
			return nil, err
		}
		r.engine[i] = s.F
	}
	r.check()
	return r, nil
}

func (r *result) fail(format string, a ...any) { r.wrong = append(r.wrong, fmt.Sprintf(format, a...)) }

// check looks for what can't be if all is well. None of it depends on how fast this machine is.
func (r *result) check() {
	for i, m := range fleet {
		ds := r.exact[i].TLS
		if len(ds) != m.connections {
			r.fail("%s: %d handshakes for %d connections", m.name, len(ds), m.connections)
		}
		// A TLS 1.3 handshake takes a round trip at least: the exact durations have a bound of their own.
		if len(ds) > 0 && ds[0] < m.rtt {
			r.fail("%s: a handshake of %v over a round trip of %v", m.name, ds[0], m.rtt)
		}
		r.checkHistogram(m.name, r.processes[i], ds)
	}
	r.checkHistogram("fleet", r.fleet, r.all)
	for i, q := range quantiles {
		exact := exactQuantile(q, r.all).Seconds()
		b, ok := bucketOf(q, r.fleet)
		if off := middle(b)/exact - 1; !ok || !(math.Abs(off) <= tolerance) {
			r.fail("p%g: %g s for exactly %g s: %+.1f %%", 100*q, middle(b), exact, 100*off)
		}
		// Prometheus' engine takes the same bucket, and interpolates within.
		if v := r.engine[i]; !(v >= b.Lower*(1-1e-9) && v <= b.Upper*(1+1e-9)) {
			r.fail("p%g: histogram_quantile says %g s, which is not in the bucket from %g to %g s", 100*q, v, b.Lower, b.Upper)
		}
	}
}

// checkHistogram compares a histogram with the durations that it should have counted: count, sum, and each bucket.
func (r *result) checkHistogram(of string, h *histogram.FloatHistogram, ds []time.Duration) {
	if h == nil {
		r.fail("%s: no histogram", of)
		return
	}
	var sum float64
	for _, d := range ds {
		sum += d.Seconds()
	}
	if h.Count != float64(len(ds)) || math.Abs(h.Sum-sum) > 1e-9*sum {
		r.fail("%s: count %g and sum %g s, want %d and %g s", of, h.Count, h.Sum, len(ds), sum)
	}
	if h.Schema < profiler.BucketScale {
		r.fail("%s: buckets of scale %d, want %d or finer", of, h.Schema, profiler.BucketScale)
	}
	var total float64
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		total += b.Count
		if n := holding(b, ds); b.Count != float64(n) {
			r.fail("%s: %g handshakes in the bucket from %g to %g s, want %d", of, b.Count, b.Lower, b.Upper, n)
		}
	}
	if total != h.Count {
		r.fail("%s: the buckets have %g handshakes, the count is %g", of, total, h.Count)
	}
}

func (r *result) err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return errWrong
}

func ms(seconds float64) string { return fmt.Sprintf("%.3g", 1000*seconds) }

// print shows the comparison, and what is wrong; its last line is the fleet's.
func (r *result) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name, rtt, sends string, h *histogram.FloatHistogram, ds []time.Duration) {
		if h == nil || len(ds) == 0 {
			return
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%g\t", name, rtt, sends, len(ds), h.Count)
		for _, q := range quantiles {
			b, _ := bucketOf(q, h)
			fmt.Fprintf(t, "%s\t%s\t", ms(exactQuantile(q, ds).Seconds()), ms(middle(b)))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, "process\tround trip\tsends\thandshakes\tcounted\tp50 ms exact\thistogram\tp99 ms exact\thistogram\t")
	var mean float64
	for i, m := range fleet {
		sends := "cumulative"
		if m.delta {
			sends = "deltas"
		}
		if m.instruments {
			sends += ", instruments"
		}
		row(m.name, m.rtt.String(), sends, r.processes[i], r.exact[i].TLS)
		if len(r.exact[i].TLS) > 0 {
			mean += exactQuantile(0.99, r.exact[i].TLS).Seconds() / float64(len(fleet))
		}
	}
	row("fleet", "", "", r.fleet, r.all)
	t.Flush()
	fmt.Fprintf(out, "histogram_quantile(0.5 and 0.99, %s): %s and %s ms\n", merged, ms(r.engine[0]), ms(r.engine[1]))
	fmt.Fprintf(out, "the mean of the processes' p99, which is no percentile of anything: %s ms\n", ms(mean))
	for _, w := range r.wrong {
		fmt.Fprintln(out, "wrong:", w)
	}
	var parts []string
	for _, q := range quantiles {
		exact := exactQuantile(q, r.all).Seconds()
		b, _ := bucketOf(q, r.fleet)
		parts = append(parts, fmt.Sprintf("p%g %s ms (exact %s, %+.1f %%)", 100*q, ms(middle(b)), ms(exact), 100*(middle(b)/exact-1)))
	}
	fmt.Fprintf(out, "fleet: %s, %g of %d handshakes of %d processes, %d failures\n",
		strings.Join(parts, ", "), r.fleet.Count, len(r.all), len(fleet), len(r.wrong))
}

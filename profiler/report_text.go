package profiler

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTo prints the report for people: per endpoint the connections, where a create's time goes, the latencies, what pooling saves, and
// what was found. Times have three significant digits; quantiles are within RelativeError.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	cw := &countingWriter{w: w}
	for i := range r.Endpoints {
		r.Endpoints[i].writeTo(cw)
	}
	for _, p := range r.Pools {
		fmt.Fprintf(cw, "pool %s: %d opened, %d open (%d in use, %d idle, max %s); %d waits, %s; closed: %d idle limit, %d idle time, %d lifetime\n",
			p.Name, p.Opened, p.Open, p.InUse, p.Idle, orNone(p.MaxOpen), p.WaitCount, Millis(p.WaitDuration),
			p.IdleLimitClosed, p.IdleTimeClosed, p.LifetimeClosed)
	}
	if len(r.Failures) > 0 {
		fmt.Fprintf(cw, "last failures\n")
		for _, f := range r.Failures {
			fmt.Fprintf(cw, "  %s %s %s (%s, after %s): %s\n", f.System, f.Address, f.Phase, f.Outcome, Millis(f.Duration), f.Error)
			if f.Cause != "" {
				fmt.Fprintf(cw, "    seen on the wire: %s\n", f.Cause)
			}
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(cw, "%s: %s: %s\n  %s\n  %s\n", f.Severity, f.Subject, f.Title, f.Evidence, f.Advice)
	}
	if d := r.Dropped; d.Endpoints+d.Conns+d.Closes+r.SinkPanics > 0 {
		fmt.Fprintf(cw, "not kept: %d connections of further endpoints told apart, %d live connections listed, %d closes reported; %d sink panics\n",
			d.Endpoints, d.Conns, d.Closes, r.SinkPanics)
	}
	return cw.n, cw.err
}

// String is what WriteTo prints.
func (r Report) String() string {
	var b strings.Builder
	r.WriteTo(&b)
	return b.String()
}

func (e *EndpointReport) writeTo(w io.Writer) {
	fmt.Fprintf(w, "%s %s · %s\n", e.System, e.Address, e.Role)
	fmt.Fprintf(w, "  connections: %d created, %d failed, %d live, %d closed", e.Created, e.Failed, e.Live, e.Closed)
	if len(e.ClosedBy) > 0 {
		fmt.Fprintf(w, " (%s)", countsText(e.ClosedBy))
	}
	fmt.Fprintln(w)
	if len(e.FailedIn) > 0 {
		fmt.Fprintf(w, "  failed in: %s\n", countsText(e.FailedIn))
	}
	if t := e.TLS; t.Handshakes > 0 {
		fmt.Fprintf(w, "  tls: %d handshakes (%s), %d resumed, %d with a HelloRetryRequest\n", t.Handshakes, countsText(t.Versions), t.Resumed, t.HelloRetry)
	} else if t.Inside > 0 {
		fmt.Fprintf(w, "  tls: made inside the dialer, %d connections\n", t.Inside)
	}
	if first, reused := e.Queries(); first+reused > 0 {
		fmt.Fprintf(w, "  queries: %d, %.1f %% on a reused connection\n", first+reused, 100*float64(reused)/float64(first+reused))
	}
	if len(e.Breakdown) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "  phase\tmean ms\tshare\tof\t\n")
		for _, s := range e.Breakdown {
			fmt.Fprintf(tw, "  %s\t%s\t%.1f %%\t%d\t\n", s.Phase, millis(s.Mean), 100*s.Share, s.Count)
		}
		tw.Flush()
	}
	if len(e.Measures) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "  ms\tcount\tmin\tp50\tp95\tp99\tmax\tmean\t\n")
		for _, m := range e.Measures {
			name := m.Measure
			if m.Outcome != OK.String() {
				name += " " + m.Outcome
			}
			fmt.Fprintf(tw, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, m.Count,
				millis(m.Min), millis(m.P50), millis(m.P95), millis(m.P99), millis(m.Max), millis(m.Mean))
		}
		tw.Flush()
	}
	if a := e.Amortisation; a != nil {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(tw, "  queries a connection\tms a query\tof it TLS\t\n")
		for _, row := range a.Rows {
			fmt.Fprintf(tw, "  %d\t%s\t%.2f %%\t\n", row.N, millis(row.Cost), 100*row.TLSShare)
		}
		tw.Flush()
		if a.Below1 > 0 {
			fmt.Fprintf(w, "  tls costs less than 5 %% from %d queries on, less than 1 %% from %d on\n", a.Below5, a.Below1)
		}
	}
}

// Millis prints d in milliseconds with three significant digits and the unit: how connprof shows times to people.
func Millis(d time.Duration) string { return millis(d) + " ms" }

func millis(d time.Duration) string {
	ms := float64(d) / 1e6
	switch a := max(ms, -ms); {
	case a >= 100:
		return fmt.Sprintf("%.0f", ms)
	case a >= 10:
		return fmt.Sprintf("%.1f", ms)
	case a >= 1:
		return fmt.Sprintf("%.2f", ms)
	case a >= 0.1:
		return fmt.Sprintf("%.3f", ms)
	case a == 0:
		return "0"
	}
	return fmt.Sprintf("%.4f", ms)
}

func orNone(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// countsText prints counts by name, the largest first.
func countsText(m map[string]int64) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(names, ", ")
}

type countingWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *countingWriter) Write(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
	return n, err
}

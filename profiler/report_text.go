package profiler

import (
	"fmt"
	"io"
	"strings"
)

// WriteTo prints the report for people: per endpoint the connections, where a create's time goes, the latencies, what pooling saves, and
// what was found. Times are in milliseconds with three significant digits; quantiles are within RelativeError. It returns how much it wrote,
// and w's first error, after which it writes no more.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	cw := &textWriter{w: w}
	for i := range r.Endpoints {
		if i > 0 {
			fmt.Fprintln(cw)
		}
		r.Endpoints[i].writeTo(cw)
	}
	r.writePools(cw)
	r.writeFailures(cw)
	r.writeFindings(cw)
	if d := r.Dropped; d != (Dropped{}) || r.SinkPanics > 0 {
		fmt.Fprintf(cw, "\nbounds: %d connections counted under \"(other)\", %d not listed as live, %d closes not reported, %d items left out by sinks, "+
			"%d operations without a connection, %d sink panics\n", d.Endpoints, d.Conns, d.Closes, d.Sinks, d.Operations, r.SinkPanics)
	}
	if cw.n == 0 {
		fmt.Fprintln(cw, "no connections")
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
	fmt.Fprintf(w, "%s %s", e.System, e.Address)
	if e.Namespace != "" {
		fmt.Fprintf(w, ", database %s", e.Namespace)
	}
	if e.Pool != "" {
		fmt.Fprintf(w, ", pool %s", e.Pool)
	}
	fmt.Fprintf(w, " (%s)\n", e.Role)
	fmt.Fprintf(w, "  connections  %d created, %d failed%s, %d live, %d closed%s\n",
		e.Created, e.Failed, inBrackets(e.FailedIn), e.Live, e.Closed, inBrackets(e.ClosedBy))
	if e.MakingMost > 1 {
		fmt.Fprintf(w, "  at once      up to %d creates, %d now\n", e.MakingMost, e.Making)
	}
	if e.WaitingMost > 1 {
		fmt.Fprintf(w, "  waiting      up to %d callers at once, %d now\n", e.WaitingMost, e.Waiting)
	}
	if t := e.TLS; t.Handshakes > 0 {
		fmt.Fprintf(w, "  tls          %d handshakes%s, %d resumed", t.Handshakes, inBrackets(t.Versions), t.Resumed)
		if t.HelloRetry > 0 {
			fmt.Fprintf(w, ", %d with a HelloRetryRequest", t.HelloRetry)
		}
		fmt.Fprintln(w)
	} else if t.Inside > 0 {
		fmt.Fprintf(w, "  tls          made inside the dialer, unseen: %d connections\n", t.Inside)
	}
	if e.RTTs > 0 {
		fmt.Fprintf(w, "  network      a round trip takes %s, mean of %d\n", Millis(e.RTT), e.RTTs)
	}
	if first, reused := e.Queries(); first+reused > 0 {
		fmt.Fprintf(w, "  queries      %d, %.1f %% on a reused connection", first+reused, 100*float64(reused)/float64(first+reused))
		if e.Stale > 0 {
			fmt.Fprintf(w, "; %d connections were found dead", e.Stale)
		}
		fmt.Fprintln(w)
	}
	if e.HeldIdle > 0 {
		fmt.Fprintf(w, "  held idle    %d, the longest for %s\n", e.HeldIdle, Millis(e.HeldIdleLongest))
		for _, h := range e.Holders {
			fmt.Fprintf(w, "               %d taken in %s, the longest for %s\n", h.Count, h, Millis(h.Longest))
		}
	}
	if all := plus(e.RowsDriver, e.RowsConsumer); all > 0 {
		fmt.Fprintf(w, "  rows         %s, %.0f %% of it in the driver (network, decoding), the rest in the program\n",
			Millis(all), 100*float64(e.RowsDriver)/float64(all))
	}
	if max(e.PreparedOnce, e.PreparedBefore, e.PreparedKept) > 0 {
		fmt.Fprintf(w, "  prepared     %d for one call each, %d on statements prepared before", e.PreparedOnce, e.PreparedBefore)
		if e.PreparedKept > 0 {
			fmt.Fprintf(w, ", %d to be kept by the driver", e.PreparedKept)
		}
		fmt.Fprintln(w)
	}
	e.writeCreate(w)
	e.writeLatencies(w)
	e.Amortisation.writeTo(w)
}

// writeCreate prints where the time of the creates that ended well went.
func (e *EndpointReport) writeCreate(w io.Writer) {
	if len(e.Breakdown) == 0 {
		return
	}
	t := table{{"a create, mean", "ms", "share", "", "in"}}
	for _, s := range e.Breakdown {
		t = append(t, []string{s.Phase, millis(s.Mean), fmt.Sprintf("%.1f %%", 100*s.Share), shareBar(s.Share), fmt.Sprint(s.Count)})
	}
	if c := e.Measure(MeasureCreate, OK); c != nil {
		t = append(t, []string{"create", millis(c.Mean), "100 %", "", fmt.Sprint(c.Count)})
	}
	if e.RTTs > 0 {
		all := 0.0
		t[0] = append(t[0], "round trips")
		for i, s := range e.Breakdown {
			t[i+1] = append(t[i+1], fmt.Sprintf("%.1f", s.RoundTrips))
			all += s.RoundTrips
		}
		for i := len(e.Breakdown) + 1; i < len(t); i++ {
			t[i] = append(t[i], fmt.Sprintf("%.1f", all))
		}
	}
	fmt.Fprintln(w)
	t.writeTo(w, 3)
}

// writeLatencies prints the distributions: first those of the whole connection and of the caller, then those of the create's phases.
func (e *EndpointReport) writeLatencies(w io.Writer) {
	if len(e.Measures) == 0 {
		return
	}
	t := table{{"ms", "count", "min", "p50", "p95", "p99", "max", "mean"}}
	row := func(m MeasureReport) {
		name := m.Measure
		if m.Outcome != OK.String() {
			name += ", " + m.Outcome
		}
		t = append(t, []string{name, fmt.Sprint(m.Count), millis(m.Min), millis(m.P50), millis(m.P95), millis(m.P99), millis(m.Max), millis(m.Mean)})
	}
	phases := make(map[string]bool)
	for p := range Phases {
		phases[p.String()] = true
	}
	for _, m := range e.Measures {
		if !phases[m.Measure] {
			row(m)
		}
	}
	for _, m := range e.Measures {
		if phases[m.Measure] {
			row(m)
		}
	}
	fmt.Fprintln(w)
	t.writeTo(w)
}

func (a *Amortisation) writeTo(w io.Writer) {
	if a == nil {
		return
	}
	t := table{{"queries per connection", "ms each", "of it tls"}}
	for _, row := range a.Rows {
		t = append(t, []string{fmt.Sprint(row.N), millis(row.Cost), fmt.Sprintf("%.1f %%", 100*row.TLSShare)})
	}
	fmt.Fprintln(w)
	t.writeTo(w)
	if a.Below1 > 0 {
		fmt.Fprintf(w, "  tls costs less than 5 %% of a query's time from %d queries per connection on, less than 1 %% from %d on\n", a.Below5, a.Below1)
	}
}

func (r *Report) writePools(w io.Writer) {
	for i, p := range r.Pools {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "pool %s: %d open of at most %s (%d in use, %d idle), %d waited for a free one, %s in all",
			p.Name, p.Open, orAny(p.MaxOpen), p.InUse, p.Idle, p.WaitCount, Millis(p.WaitDuration))
		if max(p.IdleLimitClosed, p.IdleTimeClosed, p.LifetimeClosed) > 0 {
			fmt.Fprintf(w, "; it closed for idle limit %d, idle time %d, lifetime %d", p.IdleLimitClosed, p.IdleTimeClosed, p.LifetimeClosed)
		}
		if p.Cleared > 0 {
			fmt.Fprintf(w, "; cleared %s", times(p.Cleared))
			if p.ClearedFor != "" {
				fmt.Fprintf(w, " (%s)", p.ClearedFor)
			}
		}
		if p.Draining > 0 {
			fmt.Fprintf(w, "; %d wait for a reply that nobody wants any more", p.Draining)
		}
		if p.Opened != 1 {
			fmt.Fprintf(w, "; %d such pools were opened, %d are live", p.Opened, p.Live)
		}
		fmt.Fprintln(w)
	}
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (r *Report) writeFailures(w io.Writer) {
	for i, f := range r.Failures {
		if i == 0 {
			fmt.Fprintf(w, "\nlast failures\n")
		}
		fmt.Fprintf(w, "  %s %s, %s in %s after %s: %s\n", f.System, f.Address, f.Why(), f.Phase, Millis(f.Duration), oneLine(f.Error))
		if f.Cause != "" {
			fmt.Fprintf(w, "    seen on the wire: %s\n", oneLine(f.Cause))
		}
	}
}

func (r *Report) writeFindings(w io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "\n%s: %s: %s\n  %s\n", f.Severity, f.Subject, f.Title, f.Evidence)
		if f.Advice != "" {
			fmt.Fprintf(w, "  → %s\n", f.Advice)
		}
	}
}

package term

import (
	"fmt"
	"sort"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// Report prints all of r: its endpoints, pools, the last failures, and what was found.
func (p *Printer) Report(r profiler.Report) {
	for i := range r.Endpoints {
		p.Endpoint(&r.Endpoints[i])
	}
	if len(r.Pools) > 0 {
		p.Heading("pools", "")
		t := Table{Columns: []Column{
			{Title: "pool"}, {Title: "opened"}, {Title: "open"}, {Title: "in use"}, {Title: "idle"}, {Title: "max"}, {Title: "waits"},
			{Title: "waited ms"},
		}}
		for _, s := range r.Pools {
			limit := "none"
			if s.MaxOpen > 0 {
				limit = fmt.Sprint(s.MaxOpen)
			}
			t.Rows = append(t.Rows, []string{s.Name, fmt.Sprint(s.Opened), fmt.Sprint(s.Open), fmt.Sprint(s.InUse), fmt.Sprint(s.Idle),
				limit, fmt.Sprint(s.WaitCount), millis(s.WaitDuration)})
		}
		p.Table(t)
	}
	if len(r.Failures) > 0 {
		p.Heading("last failures", "")
	}
	for _, f := range r.Failures {
		p.Failure(f)
	}
	if len(r.Findings) > 0 {
		p.Heading("findings", "")
	}
	for _, f := range r.Findings {
		p.Item(fmt.Sprintf("%s: %s: %s: %s; %s.", f.Severity, f.Subject, f.Title, f.Evidence, f.Advice))
	}
}

// Failure prints one create that failed: where, in which phase, after how long, why, and what to check.
func (p *Printer) Failure(f profiler.Failure) {
	p.line("  ", p.paint(red, f.Phase), " ", f.System, " ", f.Address, p.paint(faint,
		fmt.Sprintf("  %s connection, %s after %s", f.Role, f.Why(), profiler.Millis(f.Duration))))
	p.wrapped(plain, "    ", "    ", f.Error)
	if f.Cause != "" {
		p.wrapped(plain, "    ", "    ", "seen on the wire: "+f.Cause)
	}
	if f.Advice != "" {
		p.wrapped(plain, "    → ", "      ", f.Advice)
	}
}

// Endpoint prints what the connections of one endpoint and role did: how many, where their making spent its time, the latencies, and what
// pooling saves.
func (p *Printer) Endpoint(e *profiler.EndpointReport) {
	if e == nil {
		return
	}
	p.Heading(e.System+" "+e.Address, e.Role+" connections")
	p.Text(summary(e))
	var creates Bars
	for _, s := range e.Breakdown {
		creates.Bars = append(creates.Bars, Bar{Label: s.Phase, Value: s.Mean})
	}
	if len(creates.Bars) > 0 {
		p.Subheading("making a connection", "mean ms")
		p.Bars(creates)
	}
	if len(e.Measures) > 0 {
		p.Subheading("latencies", "ms")
		p.Table(measures(e))
	}
	if e.Amortisation != nil {
		p.Subheading("what pooling saves", "medians")
		p.Amortisation(Priced{Amortisation: e.Amortisation})
	}
}

func summary(e *profiler.EndpointReport) string {
	parts := []string{fmt.Sprintf("%d created, %d failed, %d live, %d closed", e.Created, e.Failed, e.Live, e.Closed) + counts(e.ClosedBy)}
	if len(e.FailedIn) > 0 {
		parts = append(parts, "failed in"+counts(e.FailedIn))
	}
	if t := e.TLS; t.Handshakes > 0 {
		parts = append(parts, fmt.Sprintf("%d TLS handshakes%s, %d resumed", t.Handshakes, counts(t.Versions), t.Resumed))
	}
	if first, reused := e.Queries(); first+reused > 0 {
		parts = append(parts, fmt.Sprintf("%d queries, %s on a reused connection", first+reused, Percent(float64(reused)/float64(first+reused))))
	}
	return strings.Join(parts, "; ") + "."
}

// counts prints counts by name in brackets, the largest first.
func counts(m map[string]int64) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	if len(names) == 0 {
		return ""
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, m[name])
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// measures leaves out the phases, which the bars show, unless they failed.
func measures(e *profiler.EndpointReport) Table {
	t := Table{Columns: []Column{
		{}, {Title: "count"}, {Title: "mean"}, {Title: "min"}, {Title: "p50"}, {Title: "p95"}, {Title: "p99"}, {Title: "max"},
	}}
	phase := make(map[string]bool)
	for ph := range profiler.Phases {
		phase[ph.String()] = true
	}
	for _, m := range e.Measures {
		name := strings.ReplaceAll(m.Measure, "_", " ")
		if m.Outcome != profiler.OK.String() {
			name += " " + m.Outcome
		} else if phase[m.Measure] {
			continue
		}
		t.Rows = append(t.Rows, []string{name, fmt.Sprint(m.Count),
			millis(m.Mean), millis(m.Min), millis(m.P50), millis(m.P95), millis(m.P99), millis(m.Max)})
	}
	return t
}

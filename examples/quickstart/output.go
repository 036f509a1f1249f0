package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/connprof/connprof/exporters/term"
	"github.com/connprof/connprof/profiler"
)

// page is all that the report for people says.
type page struct {
	iterations, asked int
	rtt               time.Duration
	rows              []result
	sentTo            string
}

func writeText(w io.Writer, pg page) error {
	p := term.New(w)
	p.Title("connprof quickstart", "what TLS costs a database client, and what pooling saves")
	p.Text(pg.method())
	if pg.rtt > 0 {
		p.Text(fmt.Sprintf("The network is emulated, in this process: every round trip takes %v longer, that of the connect included.", pg.rtt))
	}
	for _, system := range []string{"mysql", "mongodb"} {
		pair := pg.pair(system)
		if some := pair.some(); len(some) > 0 {
			writeSystem(p, pair, some)
		}
	}
	if pg.sentTo != "" {
		p.Heading("traces", "")
		p.Text(fmt.Sprintf("The spans of one cold and two warm queries of each variant went to %s: look for the service %s.", pg.sentTo, serviceName))
	}
	return p.Err()
}

func (pg page) method() string {
	n := fmt.Sprint(pg.iterations)
	if pg.iterations < pg.asked {
		n = fmt.Sprintf("%d of %d", pg.iterations, pg.asked)
	}
	return n + " iterations, each with a fresh client that is built, runs its first query (which connects), and is closed; then as many " +
		"queries on one client. The variants take turns."
}

// pair finds the results of one database.
func (pg page) pair(system string) (p pair) {
	for i := range pg.rows {
		switch r := &pg.rows[i]; {
		case r.system != system:
		case r.tls:
			p.on = r
		default:
			p.off = r
		}
	}
	return p
}

// some are those that there are.
func (p pair) some() (rs []*result) {
	for _, r := range []*result{p.off, p.on} {
		if r != nil {
			rs = append(rs, r)
		}
	}
	return rs
}

var systemNames = map[string]string{"mysql": "MySQL", "mongodb": "MongoDB"}

func writeSystem(p *term.Printer, both pair, some []*result) {
	first := some[0]
	p.Heading(systemNames[first.system], strings.Join([]string{first.server, first.driver, first.asks}, " · "))
	p.Subheading("what a caller sees", "wall time in ms")
	p.Table(measures(both, some))
	p.Note(first.trips)
	if first.system == "mongodb" {
		p.Note(publishedNote)
	}
	p.Subheading("where the first query's time went", "means in ms, all bars on one scale")
	var groups []term.Bars
	for _, r := range some {
		groups = append(groups, term.Bars{Title: r.title(), Bars: firstQueryBars(*r)})
	}
	p.Bars(groups...)
	p.Subheading("what pooling saves", "cost of one query when n of them share a connection, from medians")
	var priced []term.Priced
	for _, r := range some {
		priced = append(priced, term.Priced{Title: tlsName(r.tls), Amortisation: r.amortised})
	}
	p.Amortisation(priced...)
	p.Subheading("in short", "")
	for _, sentence := range conclusions(both) {
		p.Item(sentence)
	}
}

func tlsName(on bool) string {
	if on {
		return "TLS on"
	}
	return "TLS off"
}

// title is "TLS on (TLS 1.3)".
func (r result) title() string {
	if r.version != "" {
		return fmt.Sprintf("%s (%s)", tlsName(r.tls), strings.TrimPrefix(r.version, "TLS "))
	}
	return tlsName(r.tls)
}

// measures is the experiment's table.
func measures(both pair, some []*result) term.Table {
	t := term.Table{Columns: []term.Column{{}}}
	for _, r := range some {
		for _, title := range []string{"mean", "p50", "p95"} {
			t.Columns = append(t.Columns, term.Column{Group: tlsName(r.tls), Title: title})
		}
	}
	compared := len(some) == 2
	if compared {
		t.Columns = append(t.Columns, term.Column{Group: "TLS adds", Title: "mean"}, term.Column{Group: "TLS adds"})
	}
	isMongo := some[0].system == "mongodb"
	if isMongo {
		t.Columns = append(t.Columns, term.Column{Group: "published", Title: "off"}, term.Column{Group: "published", Title: "on"})
	}
	row := func(label string, of func(*result) summary, was *publishedMean) {
		cells, n := []string{label}, 0
		for _, r := range some {
			s := of(r)
			n += s.n
			cells = append(cells, millis(s.mean, s.n), millis(s.p50, s.n), millis(s.p95, s.n))
		}
		if n == 0 {
			return
		}
		if compared {
			off, on := of(both.off), of(both.on)
			more, times := "", ""
			if off.n > 0 && on.n > 0 {
				more, times = signed(on.mean-off.mean), fmt.Sprintf("×%.1f", ratio(on, off))
			}
			cells = append(cells, more, times)
		}
		if isMongo && was != nil {
			cells = append(cells, millis(was.off, 1), millis(was.on, 1))
		}
		t.Rows = append(t.Rows, cells)
	}
	row("build the client", func(r *result) summary { return r.build }, &published.build)
	row("first query", func(r *result) summary { return r.first }, &published.first)
	row("both", func(r *result) summary { return r.total }, &published.total)
	row("reused query", func(r *result) summary { return r.reused }, &published.reused)
	row("reused, prepared", func(r *result) summary { return r.prepared }, nil)
	return t
}

// firstQueryBars are the stretches that the first query waited for: the making of the connection phase by phase (for MongoDB that of the
// heartbeat connection before it, since a server is selected by its answer), the query itself, and the rest.
func firstQueryBars(r result) []term.Bar {
	var bars []term.Bar
	left := r.first.mean
	add := func(part, label string, d time.Duration) {
		bars = append(bars, term.Bar{Part: part, Label: label, Value: d})
		left -= d
	}
	pool, one := "", r.monitor.connections <= r.pool.connections
	if r.monitor.connections > 0 {
		pool = "pool connection"
	}
	if one {
		for _, p := range r.monitor.parts {
			add("heartbeat connection", p.phase.String(), r.monitor.mean(p.sum))
		}
	} else { // several servers, or a second monitor: they connect at the same time
		add("", "server selection", r.first.mean-r.pool.mean(r.pool.sum)-r.query)
	}
	for _, p := range r.pool.parts {
		add(pool, p.phase.String(), r.pool.mean(p.sum))
	}
	if r.query > 0 {
		add("", "query", r.query)
	}
	if one {
		add("", "rest", left)
	}
	return bars
}

// millis leaves a cell empty where nothing was measured.
func millis(d time.Duration, n int) string {
	if n == 0 {
		return ""
	}
	return strings.TrimSuffix(profiler.Millis(d), " ms")
}

func signed(d time.Duration) string {
	s := millis(d, 1)
	if d > 0 {
		s = "+" + s
	}
	return s
}

package accuracy

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// A measured is what connprof, and for the wire the tool's own conn over connprof's, said of one connection; of one without connprof what
// the tool's conn and its stopwatch around the same calls said.
type measured struct {
	client                            int    // the client's port
	server                            string // the server's port
	connect, greet, tls, verify, auth span
	rtt                               time.Duration
	wire, api                         []span // of the queries: entry of the first Write → return of the last Read; the Operation
	bare                              bool
}

// Bounds limit the median difference of each phase, either way.
type bounds struct {
	connect, rtt, greet, tls, verify, auth, wire, api time.Duration
}

var (
	onLoopback = bounds{connect: 200 * time.Microsecond, rtt: 20 * time.Microsecond, greet: 200 * time.Microsecond,
		tls: 40 * time.Microsecond, verify: 40 * time.Microsecond, auth: 40 * time.Microsecond, wire: 40 * time.Microsecond, api: 80 * time.Microsecond}
	overWAN = bounds{connect: 200 * time.Microsecond, rtt: 20 * time.Microsecond, greet: 200 * time.Microsecond,
		tls: 120 * time.Microsecond, verify: 120 * time.Microsecond, auth: 120 * time.Microsecond, wire: 120 * time.Microsecond, api: 120 * time.Microsecond}
)

// unbounded is for rows that are there to be compared with.
const unbounded = time.Duration(math.MaxInt64)

// A row is one phase of many connections.
type row struct {
	phase       string
	bound       time.Duration
	packets     []time.Duration // what the capture says
	differences []time.Duration // measured minus that
	early, late []time.Duration // what each is made of: how long before the first packet it began, and after the last it ended
}

func (r *row) add(m, packets span) {
	r.packets = append(r.packets, packets.took())
	r.differences = append(r.differences, m.took()-packets.took())
	r.early = append(r.early, packets.begin-m.begin)
	r.late = append(r.late, m.end-packets.end)
}

// broken reports whether the median difference is beyond the bound; no difference at all is, where there is a bound.
func (r *row) broken() bool {
	return r.bound != unbounded && (len(r.differences) == 0 || quantile(r.differences, 0.5).Abs() > r.bound)
}

// A comparison is of the connections to one server.
type comparison struct {
	rows     []row
	made     int // measured
	compared int
	left     map[string]int // why the others could not be compared
}

// complete reports whether enough of the connections could be compared that the medians are theirs.
func (c comparison) complete() bool { return c.made > 0 && c.compared*20 >= c.made*19 }

func (c comparison) broken() bool {
	return !c.complete() || slices.ContainsFunc(c.rows, func(r row) bool { return r.broken() })
}

// compare joins by port. Connections are made one after the other, so that those of a port that was used again are in the same order on
// both sides.
func compare(ms []measured, ts []truth, b bounds) comparison {
	type end struct {
		client int
		server string
	}
	found, made := map[end][]truth{}, map[end]int{}
	for _, t := range ts {
		k := end{t.client, t.server}
		found[k] = append(found[k], t)
	}
	for _, m := range ms {
		made[end{m.client, m.server}]++
	}
	rows := []row{
		{phase: "connect", bound: b.connect},
		{phase: "connect by the kernel's RTT", bound: b.rtt},
		{phase: "greet", bound: b.greet},
		{phase: "HelloWritten → Finished", bound: b.tls},
		{phase: "verify", bound: b.verify},
		{phase: "auth", bound: b.auth},
		{phase: "first query, wire", bound: b.wire},
		{phase: "first query, API", bound: b.api},
		{phase: "reused query, wire", bound: b.wire},
		{phase: "reused query, API", bound: b.api},
		{phase: "without connprof: first", bound: unbounded},
		{phase: "without connprof: reused", bound: unbounded},
	}
	c := comparison{rows: rows, made: len(ms), left: map[string]int{}}
	seen := map[end]int{}
	for _, m := range ms {
		k := end{m.client, m.server}
		if len(found[k]) != made[k] {
			c.left["not being whole in the capture"]++
			continue
		}
		t := found[k][seen[k]]
		seen[k]++
		switch {
		case t.retransmitted:
			c.left["retransmissions"]++
			continue
		case len(m.wire) != len(t.queries) || len(m.api) != len(t.queries):
			c.left["another number of queries"]++
			continue
		}
		c.compared++
		if m.bare {
			for i, q := range t.queries {
				rows[min(10+i, 11)].add(m.api[i], q)
			}
			continue
		}
		rows[0].add(m.connect, t.connect)
		rows[1].packets = append(rows[1].packets, t.connect.took())
		rows[1].differences = append(rows[1].differences, m.rtt-t.connect.took())
		rows[2].add(m.greet, t.greet)
		rows[3].add(m.tls, t.tls)
		rows[4].add(m.verify, t.verify)
		rows[5].add(m.auth, t.auth)
		for i, q := range t.queries {
			r := rows[6:8]
			if i > 0 {
				r = rows[8:10]
			}
			r[0].add(m.wire[i], q)
			r[1].add(m.api[i], q)
		}
	}
	rows[7].allow(rows[10])
	rows[9].allow(rows[11])
	return c
}

// besideBare is how much further from the packets than a stopwatch around the same calls without connprof an Operation may be.
const besideBare = 20 * time.Microsecond

// allow widens a bound that a stopwatch around the driver's bare calls breaks, too: an Operation is the call's time, and a driver whose
// processor went cold while it waited is late with or without connprof.
func (r *row) allow(bare row) {
	if len(bare.differences) > 0 {
		r.bound = max(r.bound, quantile(bare.differences, 0.5).Abs()+besideBare)
	}
}

// quantile is the nearest rank; 0 of nothing. d is sorted.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.SortFunc(d, cmp.Compare)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

// write prints the table of one comparison, in microseconds.
func (c comparison) write(w io.Writer, title string) {
	fmt.Fprintf(w, "\n%s: %d of %d connections compared", title, c.compared, c.made)
	for _, why := range slices.Sorted(maps.Keys(c.left)) {
		fmt.Fprintf(w, ", %d left out for %s", c.left[why], why)
	}
	if !c.complete() {
		fmt.Fprint(w, ": TOO FEW")
	}
	fmt.Fprintf(w, "\n%-28s %5s %9s │ %8s %8s %8s %8s │ %8s %8s │ %5s\n",
		"µs", "n", "packets", "p5", "median", "p95", "max", "early", "late", "bound")
	for _, r := range c.rows {
		verdict := fmt.Sprintf("%5.0f ok", µs(r.bound))
		if r.broken() {
			verdict = fmt.Sprintf("%5.0f BROKEN", µs(r.bound))
		} else if r.bound == unbounded {
			verdict = "    -"
		}
		sides := fmt.Sprintf("%8s %8s", "-", "-")
		if len(r.early) > 0 {
			sides = fmt.Sprintf("%8.1f %8.1f", µs(quantile(r.early, 0.5)), µs(quantile(r.late, 0.5)))
		}
		fmt.Fprintf(w, "%-28s %5d %9.1f │ %8.1f %8.1f %8.1f %8.1f │ %s │ %s\n", r.phase, len(r.differences), µs(quantile(r.packets, 0.5)),
			µs(quantile(r.differences, 0.05)), µs(quantile(r.differences, 0.5)), µs(quantile(r.differences, 0.95)),
			µs(quantile(r.differences, 1)), sides, verdict)
	}
}

func µs(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

package profiler

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A bar is one line of the waterfall.
type bar struct {
	label      string
	begin, end time.Time
	mark       string
	depth      int
	note       string
}

// WriteTo prints one line per connection made, per phase of it, per known wait and per operation, in the order in which they began and
// on one time scale: a wait is dotted, a connection and the time to a first response are full, what is part of the line above is grey. It
// returns how much it wrote, and w's first error.
func (t *Timeline) WriteTo(w io.Writer) (int64, error) {
	t.mu.Lock()
	dropped := t.dropped
	t.mu.Unlock()
	bars := waterfall(t.Events())
	cw := &textWriter{w: w}
	if len(bars) == 0 {
		fmt.Fprintln(cw, "nothing happened")
		return cw.n, cw.err
	}
	first, last, names := bars[0].begin, bars[0].end, 0
	for _, b := range bars {
		if b.begin.Before(first) {
			first = b.begin
		}
		if b.end.After(last) {
			last = b.end
		}
		names = max(names, 2*b.depth+utf8.RuneCountInString(b.label))
	}
	const width = 48
	all := last.Sub(first)
	scale := width / max(float64(all), 1)
	end := Millis(all)
	fmt.Fprintf(cw, "%s  0%s%s\n", strings.Repeat(" ", names), strings.Repeat(" ", width-1-utf8.RuneCountInString(end)), end)
	for _, b := range bars {
		from := min(int(float64(b.begin.Sub(first))*scale), width-1)
		to := min(max(int(float64(b.end.Sub(first))*scale+0.5), from+1), width)
		label := strings.Repeat("  ", b.depth) + b.label
		line := fmt.Sprintf("%s%s  %s%s%s %11s  %s", label, strings.Repeat(" ", names-utf8.RuneCountInString(label)),
			strings.Repeat(" ", from), strings.Repeat(b.mark, to-from), strings.Repeat(" ", width-to), Millis(b.end.Sub(b.begin)), b.note)
		fmt.Fprintln(cw, strings.TrimRight(line, " "))
	}
	if dropped > 0 {
		fmt.Fprintf(cw, "%d more not kept\n", dropped)
	}
	return cw.n, cw.err
}

// waterfall makes the bars of all events, those that belong together kept together.
func waterfall(events []Event) []bar {
	var groups [][]bar
	for _, e := range events {
		switch e.Kind {
		case KindCreate:
			groups = append(groups, createBars(e.Conn))
		case KindOperation:
			if e.Op.WaitKnown {
				groups = append(groups, []bar{waitBar(&e.Op)})
			}
			groups = append(groups, operationBars(e.Conn, &e.Op))
		case KindWaitFailed:
			groups = append(groups, []bar{{
				label: "wait", begin: e.Op.Asked, end: e.Op.End, mark: "·", note: "for a connection to " + e.Conn.Endpoint().Address + ", in vain: " + e.Op.Outcome.String(),
			}})
		}
	}
	slices.SortStableFunc(groups, func(a, b []bar) int { return a[0].begin.Compare(b[0].begin) })
	return slices.Concat(groups...)
}

func waitBar(o *Operation) bar {
	note := "for a free connection"
	switch {
	case o.Queued == 0:
		note = "for the new connection"
	case o.Queued < o.Wait:
		note = fmt.Sprintf("for the new connection, %s of it in the queue", Millis(o.Queued))
	}
	return bar{label: "wait", begin: o.Asked, end: o.Asked.Add(o.Wait), mark: "·", note: note}
}

func operationBars(c *Conn, o *Operation) []bar {
	name := o.Name
	if name == "" {
		name = o.Kind.String()
	}
	note := fmt.Sprintf("connection %d, first", c.ID())
	if o.N > 1 {
		note = fmt.Sprintf("connection %d, reused, number %d on it", c.ID(), o.N)
	}
	if o.Outcome != OK {
		note += ", " + o.Outcome.String()
	}
	bars := []bar{{label: name, begin: o.Start, end: o.FirstResponse, mark: "█", note: note}}
	if o.End.After(o.FirstResponse) {
		bars = append(bars, bar{label: "rows", begin: o.FirstResponse, end: o.End, mark: "▒", depth: 1})
	}
	return bars
}

func createBars(c *Conn) []bar {
	cr := c.Create()
	note := c.Endpoint().Address
	if c.Role() != RolePool {
		note += ", " + c.Role().String()
	}
	if v := cr.TLS.VersionName(); v != "" {
		note += ", " + v
		if cr.TLS.Resumed {
			note += " resumed"
		}
	}
	if cr.Err != nil {
		note += ", failed in " + cr.Failed.String()
		if cr.Class != ClassOther {
			note += ": " + cr.Class.String()
		}
	}
	bars := []bar{{label: fmt.Sprintf("connection %d", c.ID()), begin: cr.Start, end: cr.Start.Add(cr.Duration), mark: "█", note: note}}
	for p := range Phases {
		if s := cr.Phases[p]; s.Present {
			b := cr.Start.Add(s.Begin)
			bars = append(bars, bar{label: p.String(), begin: b, end: b.Add(s.Duration), mark: "▒", depth: 1})
		}
	}
	slices.SortStableFunc(bars[1:], func(a, b bar) int { return a.begin.Compare(b.begin) })
	return bars
}

package profiler

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Timeline is a Sink for one request: it collects what happened and prints it as a waterfall. The zero value is ready:
//
//	var tl profiler.Timeline
//	rows, err := db.QueryContext(profiler.WithSink(ctx, &tl), "SELECT ...")
//	...
//	tl.WriteTo(os.Stderr)
//
// It keeps at most MaxTimeline events and counts the rest.
type Timeline struct {
	mu      sync.Mutex
	events  []Event // mu: creates and ended operations
	dropped int     // mu
}

// MaxTimeline bounds a Timeline.
const MaxTimeline = 256

// Record collects creates and operations.
func (t *Timeline) Record(_ context.Context, e Event) {
	if e.Kind != KindCreate && e.Kind != KindOperation {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= MaxTimeline {
		t.dropped++
		return
	}
	t.events = append(t.events, e)
}

// Events returns what was collected, in the order in which it was reported.
func (t *Timeline) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Event(nil), t.events...)
}

// A bar is one line of the waterfall.
type bar struct {
	label      string
	begin, end time.Time
	mark       rune
	depth      int
	note       string
}

// WriteTo prints one line per connection made, per phase of it, per known wait and per operation, on one time scale.
func (t *Timeline) WriteTo(w io.Writer) (int64, error) {
	t.mu.Lock()
	dropped := t.dropped
	t.mu.Unlock()
	bars := t.bars()
	cw := &countingWriter{w: w}
	if len(bars) == 0 {
		fmt.Fprintln(cw, "nothing happened")
		return cw.n, cw.err
	}
	first, last := bars[0].begin, bars[0].end
	for _, b := range bars {
		if b.begin.Before(first) {
			first = b.begin
		}
		if b.end.After(last) {
			last = b.end
		}
	}
	const width = 48
	scale := float64(width) / max(float64(last.Sub(first)), 1)
	for _, b := range bars {
		from := int(float64(b.begin.Sub(first)) * scale)
		to := max(int(float64(b.end.Sub(first))*scale+0.5), from+1)
		from, to = min(from, width-1), min(to, width)
		line := strings.Repeat(" ", from) + strings.Repeat(string(b.mark), max(to-from, 1))
		label := strings.Repeat("  ", b.depth) + b.label
		fmt.Fprintf(cw, "%s%s %s%s %12s  %s\n", label, strings.Repeat(" ", max(0, 24-utf8.RuneCountInString(label))),
			line, strings.Repeat(" ", width-utf8.RuneCountInString(line)), Millis(b.end.Sub(b.begin)), b.note)
	}
	if dropped > 0 {
		fmt.Fprintf(cw, "%d more not kept\n", dropped)
	}
	return cw.n, cw.err
}

func (t *Timeline) bars() []bar {
	events := t.Events()
	begin := func(e Event) time.Time {
		if e.Kind == KindCreate {
			return e.Conn.Create().Start
		}
		if e.Op.WaitKnown {
			return e.Op.Asked
		}
		return e.Op.Start
	}
	sort.SliceStable(events, func(i, j int) bool { return begin(events[i]).Before(begin(events[j])) })
	var bars []bar
	for _, e := range events {
		if e.Kind == KindCreate {
			bars = append(bars, createBars(e.Conn)...)
			continue
		}
		o := e.Op
		if o.WaitKnown {
			note := "for the pool"
			if o.Queued < o.Wait {
				note = fmt.Sprintf("for the pool: %s of it in the queue", Millis(o.Queued))
			}
			bars = append(bars, bar{label: "wait", begin: o.Asked, end: o.Asked.Add(o.Wait), mark: '·', note: note})
		}
		name := o.Name
		if name == "" {
			name = o.Kind.String()
		}
		note := fmt.Sprintf("connection %d, reused, number %d", e.Conn.ID(), o.N)
		if o.N == 1 {
			note = fmt.Sprintf("connection %d, first", e.Conn.ID())
		}
		if o.Outcome != OK {
			note += ", " + o.Outcome.String()
		}
		bars = append(bars, bar{label: name, begin: o.Start, end: o.FirstResponse, mark: '█', note: note})
		if rows := o.End.Sub(o.FirstResponse); rows > 0 {
			bars = append(bars, bar{label: "rows", begin: o.FirstResponse, end: o.End, mark: '▒', depth: 1})
		}
	}
	return bars
}

func createBars(c *Conn) []bar {
	cr := c.Create()
	note := c.Endpoint().Address
	if v := cr.TLS.VersionName(); v != "" {
		note += ", " + v
		if cr.TLS.Resumed {
			note += " resumed"
		}
	}
	if cr.Err != nil {
		note += ", failed in " + cr.Failed.String()
	}
	bars := []bar{{label: fmt.Sprintf("connection %d", c.ID()), begin: cr.Start, end: cr.Start.Add(cr.Duration), mark: '█', note: note}}
	for p := range Phases {
		if s := cr.Phases[p]; s.Present {
			b := cr.Start.Add(s.Begin)
			bars = append(bars, bar{label: p.String(), begin: b, end: b.Add(s.Duration), mark: '▒', depth: 1})
		}
	}
	return bars
}

package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// use makes a connection with n queries on it.
func use(p *profiler.Profiler, n int) {
	ctx := context.Background()
	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db.example:3306"}, profiler.RolePool)
	now := profiler.Now()
	c.Cut(profiler.TLS, now)
	c.Ready(ctx)
	for range n {
		start := profiler.Now()
		op := c.Begin(ctx, profiler.OpQuery, start)
		op.Responded(ctx, start.Add(time.Millisecond), nil)
		op.End(ctx, start.Add(2*time.Millisecond), nil)
	}
	c.Closed(profiler.CloseIdleLimit, nil)
}

func TestABenchmarkReportsItsConnections(t *testing.T) {
	r := testing.Benchmark(func(b *testing.B) {
		p := Profiler(b)
		b.ResetTimer() // forgets metrics; ours come later
		for b.Loop() {
			use(p, 4)
		}
	})
	for unit, want := range map[string]float64{"first-ns/query": 1e6, "reused-ns/query": 1e6, "conns/op": 1, "reuse-%": 75} {
		if got := r.Extra[unit]; got < want*0.97 || got > want*1.03 {
			t.Errorf("%s: %v, want %v; all: %v", unit, got, want, r.Extra)
		}
	}
	if r.Extra["create-ns/conn"] <= 0 || r.Extra["tls-ns/conn"] <= 0 {
		t.Errorf("%v", r.Extra)
	}
}

func TestABenchmarkWithoutConnectionsReportsNone(t *testing.T) {
	r := testing.Benchmark(func(b *testing.B) {
		Profiler(b)
		for b.Loop() {
		}
	})
	if got := fmt.Sprint(r.Extra); got != "map[conns/op:0]" {
		t.Errorf("%s", got)
	}
}

// recorder is a testing.TB that remembers what it was told.
type recorder struct {
	testing.TB
	told string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.told = fmt.Sprintf(format, args...)
}

func TestRequireReuseFailsWithTheReport(t *testing.T) {
	for _, tt := range []struct {
		queries []int
		least   float64
		want    string
	}{
		{[]int{20}, 0.95, ""},
		{[]int{19}, 0.95, "94.7 % of 19 queries"},
		{[]int{100, 100}, 0.95, ""},
		{[]int{1, 1, 1}, 0.5, "0.0 % of 3 queries ran on a reused connection, want 50.0 %; 3 connections"},
		{nil, 0, "saw no queries"},
	} {
		var p profiler.Profiler
		for _, n := range tt.queries {
			use(&p, n)
		}
		tb := &recorder{TB: t}
		RequireReuse(tb, &p, tt.least)
		if (tb.told == "") != (tt.want == "") || !strings.Contains(tb.told, tt.want) ||
			tt.queries != nil && tb.told != "" && !strings.Contains(tb.told, "db.example") {
			t.Errorf("%v: told %q, want %q", tt.queries, tb.told, tt.want)
		}
	}
}

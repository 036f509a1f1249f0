package bench

import (
	"testing"

	"github.com/connprof/connprof/profiler"
)

// RequireReuse fails tb, with the report, if less than the share least (0 to 1) of the queries that p saw ran on a reused connection, or if
// there were no queries. The first query on each connection counts as not reused: with n queries on one connection the share is (n-1)/n.
func RequireReuse(tb testing.TB, p *profiler.Profiler, least float64) {
	tb.Helper()
	r := p.Report()
	t := sum(r)
	switch {
	case t.queries() == 0:
		tb.Errorf("bench: RequireReuse: the Profiler saw no queries: is the client instrumented with it?\n%s", r)
	case t.reuse() < least:
		tb.Errorf("bench: RequireReuse: %.1f %% of %d queries ran on a reused connection, want %.1f %%; %d connections were made\n%s",
			100*t.reuse(), t.queries(), 100*least, t.created, r)
	}
}

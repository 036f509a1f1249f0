// Package timing says whether tests hold the project's bounds on time. Such bounds are for an idle machine, so that a busy one must not
// fail the ordinary tests: they hold only where CONNPROF_TIMING is 1, which make timing sets.
package timing

import (
	"os"
	"testing"
)

// On reports whether bounds on time hold in this run: asked for, and without the race detector.
func On() bool { return os.Getenv("CONNPROF_TIMING") == "1" && !race }

// Only skips a test that is about nothing but time, unless bounds on time hold in this run.
func Only(tb testing.TB) {
	tb.Helper()
	if !On() {
		tb.Skip("a bound on time, for an idle machine: make timing")
	}
}

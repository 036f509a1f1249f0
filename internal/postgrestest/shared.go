package postgrestest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/connprof/connprof/internal/servertest"
)

// shared is the server of this test process.
var shared = servertest.Shared[*Server]{Launch: start, End: (*Server).stop, Missing: errNotInstalled}

// Start returns the test process's server, started by the first call (about two seconds). It is safe for concurrent use. Where PostgreSQL
// isn't installed it skips the test, or fails it if CONNPROF_REQUIRE_SERVERS is 1; a server that doesn't start fails the test with the end
// of its log.
//
// The server is shared: a test that creates users or databases gives them names of their own.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return shared.Start(tb)
}

// Stop stops the server that Start returned, if there is one, and returns when its process and its folder are gone. A later Start starts
// another. Main calls it; a TestMain of one's own does so after m.Run. Without it the server ends just after the test process.
func Stop() error { return shared.Stop() }

// Main runs the tests of a package, stops the server if one was started, fails if a goroutine is left that none of ignore allows, and
// exits the process.
func Main(m *testing.M, ignore ...goleak.Option) { shared.Main(m, ignore...) }

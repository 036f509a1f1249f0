package mariadbtest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the server of this test process.
var shared struct {
	mu     sync.Mutex // guards the rest
	server *Server
	err    error // of a failed start, which is not tried again
}

// Start returns the test process's server, started by the first call (about a second). It is safe for concurrent use.
// Where MariaDB isn't installed it skips the test, or fails it if CONNPROF_REQUIRE_SERVERS is 1; a server that doesn't
// start fails the test with the end of its log.
//
// The server is shared: a test that creates users or databases gives them names of their own.
func Start(tb testing.TB) *Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start()
	}
	if errors.Is(shared.err, errNotInstalled) && os.Getenv("CONNPROF_REQUIRE_SERVERS") != "1" {
		tb.Skip(shared.err)
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Stop stops the server that Start returned, if there is one, and returns when its process and its folder are gone. A
// later Start starts another. Main calls it; a TestMain of one's own does so after m.Run. Without it the server ends just
// after the test process.
func Stop() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	s := shared.server
	shared.server, shared.err = nil, nil
	if s == nil {
		return nil
	}
	return s.stop()
}

// Main runs the tests of a package, stops the server if one was started, fails if a goroutine is left that none of ignore
// allows, and exits the process.
func Main(m *testing.M, ignore ...goleak.Option) {
	goleak.VerifyTestMain(stopAfter{m}, ignore...)
}

// stopAfter is a goleak.TestingM that stops the server after the tests and before the look for goroutines.
type stopAfter struct{ m *testing.M }

func (s stopAfter) Run() int {
	code := s.m.Run()
	if err := Stop(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = max(code, 1)
	}
	return code
}

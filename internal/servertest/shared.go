package servertest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// Shared is the one server of a test process, of type S.
type Shared[S any] struct {
	// Launch starts a server and returns when it answers; on failure nothing is left.
	Launch func() (S, error)
	// End stops it and returns when its process and its folder are gone.
	End func(S) error
	// Missing is the error of Launch, or one that it wraps, where the server is not installed.
	Missing error

	mu      sync.Mutex // guards the rest
	running bool
	server  S
	err     error // of a failed start, which is not tried again
}

// Start returns the server, started by the first call. Where it isn't installed it skips the test, or fails it if CONNPROF_REQUIRE_SERVERS
// is 1; a server that doesn't start fails the test. It is safe for concurrent use.
func (s *Shared[S]) Start(tb testing.TB) S {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running && s.err == nil {
		s.server, s.err = s.Launch()
		s.running = s.err == nil
	}
	if errors.Is(s.err, s.Missing) && os.Getenv("CONNPROF_REQUIRE_SERVERS") != "1" {
		tb.Skip(s.err)
	}
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Stop stops the server, if there is one, and returns when its process and its folder are gone. A later Start starts another.
func (s *Shared[S]) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, running := s.server, s.running
	var none S
	s.server, s.running, s.err = none, false, nil
	if !running {
		return nil
	}
	return s.End(server)
}

// Main runs the tests of a package, stops the server if one was started, fails if a goroutine is left that none of ignore allows, and
// exits the process.
func (s *Shared[S]) Main(m *testing.M, ignore ...goleak.Option) {
	goleak.VerifyTestMain(stopAfter{m, s.Stop}, ignore...)
}

// stopAfter is a goleak.TestingM that stops the server after the tests and before the look for goroutines.
type stopAfter struct {
	m    *testing.M
	stop func() error
}

func (s stopAfter) Run() int {
	code := s.m.Run()
	if err := s.stop(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = max(code, 1)
	}
	return code
}

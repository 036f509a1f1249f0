package pool

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// script plays a driver for one CMAP. What it dials is never connected.
type script struct {
	t *testing.T
	p *profiler.Profiler
	m *CMAP

	mu     sync.Mutex
	dialed []*profiler.Conn
	plain  int
	events []profiler.Event
}

func newScript(t *testing.T) *script {
	s := &script{t: t}
	s.p = &profiler.Profiler{Sinks: []profiler.Sink{s}}
	s.m = &CMAP{
		Profiler: s.p, Endpoint: profiler.Endpoint{System: "mongodb"},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dialed = append(s.dialed, profiler.FromContext(ctx))
			return nil, nil
		},
		Unwatched: func(context.Context, string, string) (net.Conn, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.plain++
			return nil, nil
		},
	}
	return s
}

func (s *script) Record(_ context.Context, e profiler.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// operations are the operations that ended, and where.
func (s *script) operations() (ops []profiler.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == profiler.KindOperation {
			ops = append(ops, e)
		}
	}
	return ops
}

const here = "db:27017"

func (s *script) pool(kind string, id uint64) {
	s.m.Pool(&PoolEvent{Type: kind, Address: here, ConnectionID: id})
}
func (s *script) out(id uint64, d time.Duration) {
	s.m.Pool(&PoolEvent{Type: connectionCheckedOut, Address: here, ConnectionID: id, Duration: d})
}
func (s *script) in(id uint64) { s.pool(connectionCheckedIn, id) }
func (s *script) close(id uint64, reason string, err error) {
	s.m.Pool(&PoolEvent{Type: connectionClosed, Address: here, ConnectionID: id, Reason: reason, Err: err})
}
func (s *script) command(name, driver string, d time.Duration) {
	s.m.Command(context.Background(), &CommandEvent{ConnectionID: driver, Name: name, Database: "test", Duration: d})
}
func (s *script) heartbeat(kind string, awaited bool, err error) {
	s.m.Heartbeat(HeartbeatEvent{Type: kind, Awaited: awaited, ConnectionID: here + "[-9]", Err: err})
}

// dial dials on this goroutine and returns the Conn that Dial found; nil if it was not asked.
func (s *script) dial() *profiler.Conn {
	s.mu.Lock()
	n := len(s.dialed)
	s.mu.Unlock()
	_, _ = s.m.DialContext(context.Background(), "tcp", here)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dialed) == n {
		return nil
	}
	return s.dialed[len(s.dialed)-1]
}

// create makes a connection of the pool on a goroutine of its own.
func (s *script) create(id uint64) (c *profiler.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		s.pool(connectionCreated, id)
		c = s.dial()
		s.pool(connectionReady, id)
	})
	wg.Wait()
	return c
}

func (s *script) empty() {
	s.t.Helper()
	if got := s.m.Stats(); got.Conns != 0 || got.Pending != 0 || got.Dropped != 0 {
		s.t.Errorf("left over: %+v", got)
	}
	for _, e := range s.p.Report().Endpoints {
		if e.Live != 0 || e.Closed != e.Created {
			s.t.Errorf("%s: %d created, %d closed, %d live", e.Role, e.Created, e.Closed, e.Live)
		}
	}
	named := 0
	s.m.named.Range(func(any, any) bool { named++; return true })
	if named != 0 {
		s.t.Errorf("%d names are left over", named)
	}
}

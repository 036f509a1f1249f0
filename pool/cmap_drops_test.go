package pool

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// A monitor of the program's own may keep events from a CMAP: any of them, but for the ones that end connections and pools. What it keeps
// is bounded by the connections that are open, whatever was not told; and the connections end.
func TestEventsThatNeverComeLeaveNothing(t *testing.T) {
	s := newScript(t)
	s.p.Sinks = nil
	m := s.m
	m.RetryReads, m.RetryWrites, m.SelectionTimeout = true, true, time.Second
	const rounds = 4
	var requests, names atomic.Int64
	for round := range rounds {
		m.Pool(&PoolEvent{Type: poolCreated, Address: here, MaxPoolSize: 100})
		var all sync.WaitGroup
		for g := range 10 {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
			all.Go(func() {
				dropped := func() bool { return rng.IntN(20) == 0 }
				pool := func(e *PoolEvent) {
					if e.Address = here; !dropped() {
						m.Pool(e)
					}
				}
				for c := range 5 {
					id, driver := uint64(g*10+c+1), fmt.Sprintf("%s[-%d]", here, names.Add(1))
					var made sync.WaitGroup
					made.Go(func() {
						pool(&PoolEvent{Type: connectionCreated, ConnectionID: id})
						m.DialContext(context.Background(), "tcp", here)
						pool(&PoolEvent{Type: connectionReady, ConnectionID: id})
					})
					made.Wait()
					for range 50 {
						pool(&PoolEvent{Type: checkOutStarted})
						pool(&PoolEvent{Type: connectionCheckedOut, ConnectionID: id, Duration: time.Microsecond})
						e := &CommandEvent{ConnectionID: driver, RequestID: requests.Add(1), Name: "find", Database: "d", Duration: time.Microsecond}
						if rng.IntN(2) == 0 {
							e.Name = "insert"
						}
						if rng.IntN(10) == 0 {
							e.Err, e.RetryableRead, e.RetryableWrite = io.ErrUnexpectedEOF, true, true
						}
						if !dropped() {
							m.Started(context.Background(), StartedEvent{ConnectionID: driver, RequestID: e.RequestID, Name: e.Name})
						}
						if rng.IntN(50) == 0 {
							m.Pool(&PoolEvent{Type: poolCleared, Address: here, Err: io.EOF})
						}
						if !dropped() {
							m.Command(context.Background(), e)
						}
						if rng.IntN(40) > 0 { // else the pool closes what is in use
							pool(&PoolEvent{Type: connectionCheckedIn, ConnectionID: id})
						}
					}
					m.Pool(&PoolEvent{Type: connectionClosed, Address: here, ConnectionID: id, Reason: "error"})
					if rng.IntN(2) == 0 {
						pool(&PoolEvent{Type: connectionCheckedIn, ConnectionID: id})
					}
				}
			})
		}
		all.Wait()
		m.Pool(&PoolEvent{Type: poolClosed, Address: here})
	}
	m.mu.Lock()
	slots, named := 0, 0
	m.slots.Range(func(any, any) bool { slots++; return true })
	m.named.Range(func(any, any) bool { named++; return true })
	// What is closed while it is in use is kept until it comes back, if that is told.
	if m.size > 50 || slots > m.size || named > m.size || len(m.opening)+len(m.joining)+len(m.held)+len(m.sites) > 0 || m.draining.Load() != 0 {
		t.Errorf("after %d commands: %d connections, %d slots, %d names; %d in the making, %d to be named, %d held, %d sites, %d draining",
			requests.Load(), m.size, slots, named, len(m.opening), len(m.joining), len(m.held), len(m.sites), m.draining.Load())
	}
	m.mu.Unlock()
	if e := s.p.Report().Endpoint("", profiler.RolePool); e.Live != 0 || e.Making != 0 || e.Created != e.Closed {
		t.Errorf("%d created, %d closed, %d live, %d in the making", e.Created, e.Closed, e.Live, e.Making)
	}
}

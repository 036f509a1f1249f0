package pool

import (
	"strings"

	"github.com/connprof/connprof/profiler"
)

// A driver clears a pool when the server failed it: for an error of the network that met an operation, for a heartbeat without an answer, for a
// server that steps down. What is open then is closed as stale, and made anew once somebody needs it. Drivers also clear the pool of a client
// that is being closed, because its own end cuts the heartbeat: that is nobody's failure. A clear therefore counts once the pool is used
// again, or somebody asks it in vain.

// cleared takes ConnectionPoolCleared. Closes of stale connections that follow have its cause.
func (m *CMAP) cleared(e *PoolEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.siteLocked(e.Address)
	s.cause, s.clearing = e.Err, true
	if m.Pinning { // behind a load balancer only the connections to one server are meant: the pool is not paused, and nothing makes it ready again
		s.clearCountsLocked()
	}
}

// usedAgain says that the pool of an address goes on, or that somebody needed it.
func (m *CMAP) usedAgain(address string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sites[address]; s != nil && s.clearing {
		s.clearCountsLocked()
	}
}

func (s *site) clearCountsLocked() {
	s.clearing = false
	s.clears++
	s.clearedFor = profiler.ClassOf(&profiler.Create{Err: s.cause, Outcome: profiler.Failed, Failed: profiler.Other}).String()
}

// awaitedOf counts an awaited heartbeat on the connection of that name, "address[-N]".
func (m *CMAP) awaitedOf(name string) {
	address, _, _ := strings.Cut(name, "[-")
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sites[address]; s != nil {
		s.awaited.Add(1)
	}
}

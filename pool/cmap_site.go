package pool

import (
	"sync/atomic"
	"time"

	"github.com/connprof/connprof/profiler"
)

// site is one client's pools at one address: one, but for a server that was removed and came back before its old pool was empty. It
// counts what tells a caller who queued because the pool was full from one who queued because the pool makes only maxConnecting
// connections at a time. A report asks it through Profiler.WatchPool, under the address, where all clients of the process add up.
type site struct {
	address    string
	maxMaking  int64
	maxOpen    atomic.Int64 // maxPoolSize, 0 for no limit
	open       atomic.Int64 // connections, those being made included
	making     atomic.Int64 // created and not ready
	busyAt     atomic.Int64 // Instant when making last was at maxMaking
	fullAt     atomic.Int64 // Instant when open last was at maxOpen
	fullWaits  atomic.Int64
	fullTime   atomic.Int64
	busyWaits  atomic.Int64
	busyTime   atomic.Int64
	idleClosed atomic.Int64

	draining  atomic.Int64 // of CMAPStats, this address's part
	abandoned atomic.Int64
	awaited   atomic.Int64

	cause      error  // CMAP.mu: why the pool was cleared last
	clearing   bool   // CMAP.mu: it was cleared, and nobody has wanted it since
	clears     int64  // CMAP.mu
	clearedFor string // CMAP.mu: the class of cause at the last of clears

	stops []func() // CMAP.mu: of WatchPool, one a pool that is open
}

// queuedEnough is how long a caller must have queued to count as one who waited for the pool: what is shorter is scheduling.
const queuedEnough = time.Millisecond

func (m *CMAP) siteLocked(address string) *site {
	if s := m.sites[address]; s != nil {
		return s
	}
	s := &site{address: address, maxMaking: 2} // both drivers' default
	if m.MaxConnecting > 0 {
		s.maxMaking = int64(m.MaxConnecting)
	}
	if m.sites == nil {
		m.sites = make(map[string]*site)
	}
	if len(m.sites) < maxSites {
		m.sites[address] = s
	}
	return s
}

// maxSites bounds the addresses that one client's counts are kept for.
const maxSites = 1 << 10

func (s *site) begin() {
	now := int64(profiler.Now())
	if s.making.Add(1) >= s.maxMaking {
		s.busyAt.Store(now)
	}
	if n := s.maxOpen.Load(); s.open.Add(1) >= n && n > 0 {
		s.fullAt.Store(now)
	}
}

// made ends a create; the connection is there if ok.
func (s *site) made(ok bool) {
	now := int64(profiler.Now())
	if s.making.Add(-1) >= s.maxMaking-1 {
		s.busyAt.Store(now)
	}
	if !ok {
		s.closed(false)
	}
}

func (s *site) closed(idle bool) {
	if n := s.maxOpen.Load(); s.open.Add(-1) >= n-1 && n > 0 {
		s.fullAt.Store(int64(profiler.Now()))
	}
	if idle {
		s.idleClosed.Add(1)
	}
}

// waited counts a caller who queued, not counting a create that was made for it, from the instant asked on.
func (s *site) waited(asked profiler.Instant, queued time.Duration) {
	if queued < queuedEnough {
		return
	}
	full := s.maxOpen.Load() > 0 && (s.open.Load() >= s.maxOpen.Load() || s.fullAt.Load() >= int64(asked) && s.fullAt.Load() != 0)
	busy := s.making.Load() >= s.maxMaking || s.busyAt.Load() >= int64(asked) && s.busyAt.Load() != 0
	switch {
	case full:
		s.fullWaits.Add(1)
		s.fullTime.Add(int64(queued))
	case busy:
		s.busyWaits.Add(1)
		s.busyTime.Add(int64(queued))
	}
}

// stats counts the connections in use one by one: a counter of them would be one that all cores write for every command.
func (m *CMAP) stats(s *site) profiler.PoolStats {
	now := profiler.Now()
	m.giveUp(func(h *heldOp) bool { return m.expired(h, now) })
	open, making, out := s.open.Load(), s.making.Load(), int64(0)
	m.slots.Range(func(_, v any) bool {
		if k := v.(*member); k.site == s && k.out.Load() {
			out++
		}
		return true
	})
	var waits, timeouts int64
	m.mu.Lock()
	clears, clearedFor := s.clears, s.clearedFor
	m.mu.Unlock()
	p := m.pendingOf(s.address)
	if p != nil {
		waits, timeouts = p.callers(), p.timeouts.Load()
	}
	return profiler.PoolStats{
		Pending: int(waits), PendingKnown: p != nil, Timeouts: timeouts, TimeoutsKnown: p != nil,
		MaxOpen: int(s.maxOpen.Load()), Open: int(open), InUse: int(out), Idle: int(max(0, open-making-out)),
		WaitCount: s.fullWaits.Load(), WaitDuration: time.Duration(s.fullTime.Load()),
		IdleTimeClosed: s.idleClosed.Load(),
		MaxMaking:      int(s.maxMaking), Making: int(making),
		MakingWaitCount: s.busyWaits.Load(), MakingWaitDuration: time.Duration(s.busyTime.Load()),
		Cleared: clears, ClearedFor: clearedFor, Draining: int(s.draining.Load()),
		Abandoned: s.abandoned.Load(), AwaitedHeartbeats: s.awaited.Load(),
	}
}

// poolCreated makes a pool part of the reports.
func (m *CMAP) poolCreated(e *PoolEvent) {
	m.mu.Lock()
	s := m.siteLocked(e.Address)
	s.maxOpen.Store(int64(e.MaxPoolSize))
	first := len(s.stops) == 0
	m.mu.Unlock()
	stats := func() profiler.PoolStats { return m.stats(s) }
	if !first { // the counts are those of the first one
		stats = func() profiler.PoolStats { return profiler.PoolStats{} }
	}
	stop := m.Profiler.WatchPool(e.Address, stats)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.stops = append(s.stops, stop)
}

// unwatch ends the last pool of an address: with it goes what is kept of the address.
func (m *CMAP) unwatch(address string) {
	m.mu.Lock()
	var stop func()
	if s := m.sites[address]; s != nil {
		if n := len(s.stops); n > 0 {
			stop, s.stops = s.stops[n-1], s.stops[:n-1]
		}
		if len(s.stops) == 0 {
			delete(m.sites, address)
		}
	}
	over := len(m.sites) == 0
	m.mu.Unlock()
	if stop != nil {
		stop()
	}
	if over { // the client is closed: nothing is repeated any more
		m.giveUp(func(*heldOp) bool { return true })
	}
}

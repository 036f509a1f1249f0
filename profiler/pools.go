package profiler

import (
	"sync"
	"time"
)

// PoolStats is what a pool says of itself. Counters count from the pool's start, and never fall; none of the numbers is negative.
type PoolStats struct {
	// MaxOpen is the largest number of connections, 0 for no limit; Open, InUse and Idle are those of now.
	MaxOpen int `json:"max_open"`
	Open    int `json:"open"`
	InUse   int `json:"in_use"`
	Idle    int `json:"idle"`
	// WaitCount and WaitDuration count the callers that had to wait for a free connection, and their time. A caller for whom a
	// connection was made at once did not wait in this sense.
	WaitCount    int64         `json:"wait_count"`
	WaitDuration time.Duration `json:"wait_ns"`
	// IdleLimitClosed, IdleTimeClosed and LifetimeClosed count the closes that the pool decided, by its limit that was the reason.
	IdleLimitClosed int64 `json:"idle_limit_closed"`
	IdleTimeClosed  int64 `json:"idle_time_closed"`
	LifetimeClosed  int64 `json:"lifetime_closed"`
	// MaxIdle, MaxIdleTime and MaxLifetime are the pool's other limits, where the user told them; 0 otherwise.
	MaxIdle     int           `json:"max_idle,omitempty"`
	MaxIdleTime time.Duration `json:"max_idle_time_ns,omitempty"`
	MaxLifetime time.Duration `json:"max_lifetime_ns,omitempty"`
	// MaxMaking is how many connections the pool makes at a time, 0 for no limit of its own (MongoDB's maxConnecting), Making how many it
	// makes now. MakingWaitCount and MakingWaitDuration count the callers that had to wait because that many were being made while the
	// pool was not full: none of them is in WaitCount.
	MaxMaking          int           `json:"max_making,omitempty"`
	Making             int           `json:"making,omitempty"`
	MakingWaitCount    int64         `json:"making_wait_count,omitempty"`
	MakingWaitDuration time.Duration `json:"making_wait_ns,omitempty"`
	// MinIdle is how many idle connections the pool tries to keep, 0 for none or not told.
	MinIdle int `json:"min_idle,omitempty"`
	// Pending is how many callers wait for a connection now, Timeouts how many gave up waiting because a deadline passed; valid if
	// PendingKnown and TimeoutsKnown, which few pools tell.
	Pending       int   `json:"pending,omitempty"`
	PendingKnown  bool  `json:"pending_known,omitempty"`
	Timeouts      int64 `json:"timeouts,omitempty"`
	TimeoutsKnown bool  `json:"timeouts_known,omitempty"`
	// Cleared counts how often the driver cleared the pool because the server or the way to it failed (MongoDB): all that was open then is
	// closed as stale. ClearedFor is why it last was, an ErrorClass's name; "" if the driver said nothing.
	Cleared    int64  `json:"cleared,omitempty"`
	ClearedFor string `json:"cleared_for,omitempty"`
	// Draining is how many connections are in the pool whose reply is still to come, because the client gave up on it; Abandoned counts the
	// commands whose end was never told (only where their starts are), AwaitedHeartbeats those that the server was asked to hold: no
	// latencies (MongoDB).
	Draining          int   `json:"draining,omitempty"`
	Abandoned         int64 `json:"abandoned,omitempty"`
	AwaitedHeartbeats int64 `json:"awaited_heartbeats,omitempty"`
}

func (s PoolStats) add(o PoolStats) PoolStats {
	s.WaitCount = plus(s.WaitCount, o.WaitCount)
	s.WaitDuration = plus(s.WaitDuration, o.WaitDuration)
	s.IdleLimitClosed = plus(s.IdleLimitClosed, o.IdleLimitClosed)
	s.IdleTimeClosed = plus(s.IdleTimeClosed, o.IdleTimeClosed)
	s.LifetimeClosed = plus(s.LifetimeClosed, o.LifetimeClosed)
	s.MakingWaitCount = plus(s.MakingWaitCount, o.MakingWaitCount)
	s.MakingWaitDuration = plus(s.MakingWaitDuration, o.MakingWaitDuration)
	s.Timeouts = plus(s.Timeouts, o.Timeouts)
	s.TimeoutsKnown = s.TimeoutsKnown || o.TimeoutsKnown
	s.Cleared = plus(s.Cleared, o.Cleared)
	if o.ClearedFor != "" {
		s.ClearedFor = o.ClearedFor
	}
	s.Abandoned = plus(s.Abandoned, o.Abandoned)
	s.AwaitedHeartbeats = plus(s.AwaitedHeartbeats, o.AwaitedHeartbeats)
	return s
}

func (s PoolStats) sub(o PoolStats) PoolStats {
	s.WaitCount = minus(s.WaitCount, o.WaitCount)
	s.WaitDuration = minus(s.WaitDuration, o.WaitDuration)
	s.IdleLimitClosed = minus(s.IdleLimitClosed, o.IdleLimitClosed)
	s.IdleTimeClosed = minus(s.IdleTimeClosed, o.IdleTimeClosed)
	s.LifetimeClosed = minus(s.LifetimeClosed, o.LifetimeClosed)
	s.MakingWaitCount = minus(s.MakingWaitCount, o.MakingWaitCount)
	s.MakingWaitDuration = minus(s.MakingWaitDuration, o.MakingWaitDuration)
	s.Timeouts = minus(s.Timeouts, o.Timeouts)
	if s.Cleared = minus(s.Cleared, o.Cleared); s.Cleared == 0 {
		s.ClearedFor = ""
	}
	s.Abandoned = minus(s.Abandoned, o.Abandoned)
	s.AwaitedHeartbeats = minus(s.AwaitedHeartbeats, o.AwaitedHeartbeats)
	return s
}

// pools are the watched ones, by name, and what those that are gone had counted.
type pools struct {
	mu     sync.Mutex
	byName map[string]*watchedPool // mu
}

type watchedPool struct {
	live   map[*func() PoolStats]struct{}
	opened int64
	gone   PoolStats
}

// maxPools bounds the names that WatchPool tells apart; what comes later is counted under "(other)".
const maxPools = 300

// WatchPool includes a pool in reports under name until stop is called. stats is called by Report, concurrently with everything else; it
// must not block for long, nor call p. Pools of one name are added up, those that are gone included, so that a pool made anew for every request
// shows as what it is. stop asks
// stats for the last time; it may be called more than once, but not from stats. A nil Profiler watches nothing. A nil stats panics.
func (p *Profiler) WatchPool(name string, stats func() PoolStats) (stop func()) {
	if p == nil {
		return func() {}
	}
	if stats == nil {
		panic("profiler: WatchPool: nil stats")
	}
	key := &stats
	p.pools.mu.Lock()
	w := p.pools.byName[name]
	if w == nil {
		if len(p.pools.byName) >= maxPools {
			name = "(other)"
			w = p.pools.byName[name]
		}
		if w == nil {
			w = &watchedPool{live: make(map[*func() PoolStats]struct{})}
			if p.pools.byName == nil {
				p.pools.byName = make(map[string]*watchedPool)
			}
			p.pools.byName[name] = w
		}
	}
	w.live[key] = struct{}{}
	w.opened++
	p.pools.mu.Unlock()
	return sync.OnceFunc(func() {
		last := stats()
		p.pools.mu.Lock()
		defer p.pools.mu.Unlock()
		w.gone = w.gone.add(last)
		delete(w.live, key)
	})
}

// PoolReport is what the pools of one name have counted.
type PoolReport struct {
	// Name is WatchPool's, or "(other)" for what came after the first 300.
	Name string `json:"name"`
	// Opened counts the pools that were ever watched under the name, Live those still open. MaxOpen, Open, InUse and Idle are the sums
	// of those.
	Opened int64 `json:"opened"`
	Live   int   `json:"live"`
	PoolStats
}

func (ps *pools) report() []PoolReport {
	type entry struct {
		r     PoolReport
		stats []func() PoolStats
	}
	ps.mu.Lock()
	entries := make([]entry, 0, len(ps.byName))
	for name, w := range ps.byName {
		e := entry{r: PoolReport{Name: name, Opened: w.opened, Live: len(w.live), PoolStats: w.gone}}
		for f := range w.live {
			e.stats = append(e.stats, *f)
		}
		entries = append(entries, e)
	}
	ps.mu.Unlock()
	rs := make([]PoolReport, 0, len(entries))
	for _, e := range entries {
		limited := true
		for _, f := range e.stats { // outside our lock: a pool takes its own
			s := f()
			e.r.MaxOpen = plusLimit(e.r.MaxOpen, s.MaxOpen)
			limited = limited && s.MaxOpen > 0
			e.r.Open += s.Open
			e.r.InUse += s.InUse
			e.r.Idle += s.Idle
			e.r.MaxIdle = plusLimit(e.r.MaxIdle, s.MaxIdle)
			e.r.MinIdle += s.MinIdle
			e.r.Pending += s.Pending
			e.r.PendingKnown = e.r.PendingKnown || s.PendingKnown
			e.r.MaxMaking += s.MaxMaking
			e.r.Making += s.Making
			e.r.Draining += s.Draining
			e.r.MaxIdleTime = max(e.r.MaxIdleTime, s.MaxIdleTime)
			e.r.MaxLifetime = max(e.r.MaxLifetime, s.MaxLifetime)
			e.r.PoolStats = e.r.PoolStats.add(s)
		}
		if !limited { // one of them has no limit, so that they have none together
			e.r.MaxOpen = 0
		}
		rs = append(rs, e.r)
	}
	return rs
}

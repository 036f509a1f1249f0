package pgxprof

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/profiler"
)

// callers counts those who acquire from a pool.
type callers struct{ pending, timeouts atomic.Int64 }

// answered counts one who has a connection or an error: a deadline that passed is a timeout, a caller who gave up is none.
func (c *callers) answered(err error) {
	c.pending.Add(-1)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		c.timeouts.Add(1)
	}
}

// callersOf are those of pool.
func (t *tracer) callersOf(pool *pgxpool.Pool) *callers {
	if h := t.hooks.pool; h != nil {
		if o := h.owners.of(pool); o != nil {
			return &o.callers
		}
	}
	return &t.callers
}

// Watch includes db's own counters in p's reports under name until stop is called; call it before db is dropped. An empty name stands for
// the address, under which metrics look for a pool without a name. What only the tracer sees (callers who wait now, and time-outs) is known
// if db comes from Instrument. A nil p watches nothing.
//
// pgxpool counts a caller for whom a connection was made among those that waited for a free one; if db comes from Instrument, these are
// taken out.
func Watch(p *profiler.Profiler, name string, db *pgxpool.Pool) (stop func()) {
	if p == nil {
		return func() {}
	}
	cfg := db.Config()
	if name == "" {
		name = endpoint(cfg.ConnConfig).Address
	}
	var c *callers
	var o *owner
	if t, ok := cfg.ConnConfig.Tracer.(*tracer); ok {
		c = t.callersOf(db)
		if h := t.hooks.pool; h != nil {
			o = h.owners.of(db)
		}
	}
	return p.WatchPool(name, func() profiler.PoolStats {
		s := db.Stat()
		ps := profiler.PoolStats{
			MaxOpen: int(s.MaxConns()), Open: int(s.TotalConns()), InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()),
			Making: int(s.ConstructingConns()), MinIdle: int(cfg.MinIdleConns), MaxIdleTime: cfg.MaxConnIdleTime, MaxLifetime: cfg.MaxConnLifetime,
			WaitCount: s.EmptyAcquireCount(), WaitDuration: s.EmptyAcquireWaitTime(),
			IdleTimeClosed: s.MaxIdleDestroyCount(), LifetimeClosed: s.MaxLifetimeDestroyCount(),
		}
		if c != nil {
			ps.Pending, ps.PendingKnown = int(max(0, c.pending.Load())), true
			ps.Timeouts, ps.TimeoutsKnown = c.timeouts.Load(), true
		}
		if o != nil { // counted one after the other: what lies between must not make them negative
			ps.WaitCount = max(0, ps.WaitCount-o.madeFor.Load())
			ps.WaitDuration = max(0, ps.WaitDuration-time.Duration(o.madeWait.Load()))
			if ps.WaitCount == 0 {
				ps.WaitDuration = 0
			}
		}
		return ps
	})
}

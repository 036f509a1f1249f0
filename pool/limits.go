package pool

import (
	"database/sql"
	"time"

	"github.com/connprof/connprof/profiler"
)

// Limits are those that the user sets on the *sql.DB and that sql.DBStats does not tell. They inform: reports show them, and they help to
// tell why a connection was closed. Zero means not told. The fields are named
// after the setters of sql.DB.
type Limits struct {
	MaxIdleConns    int
	ConnMaxIdleTime time.Duration
	ConnMaxLifetime time.Duration
}

// WatchDB includes the counters of a *sql.DB in reports under name, until stop is called; call that before the DB is dropped, and as often as you
// like. OpenDB and the adoption packages do it by themselves. The limits, if given, are shown beside the counters; of several the last
// counts. A nil p watches nothing.
func WatchDB(p *profiler.Profiler, name string, db *sql.DB, limits ...Limits) (stop func()) {
	return p.WatchPool(name, func() profiler.PoolStats { return poolStats(db.Stats(), limits...) })
}

func poolStats(s sql.DBStats, limits ...Limits) profiler.PoolStats {
	ps := profiler.PoolStats{
		MaxOpen: s.MaxOpenConnections, Open: s.OpenConnections, InUse: s.InUse, Idle: s.Idle,
		WaitCount: s.WaitCount, WaitDuration: s.WaitDuration,
		IdleLimitClosed: s.MaxIdleClosed, IdleTimeClosed: s.MaxIdleTimeClosed, LifetimeClosed: s.MaxLifetimeClosed,
	}
	for _, l := range limits {
		ps.MaxIdle, ps.MaxIdleTime, ps.MaxLifetime = l.MaxIdleConns, l.ConnMaxIdleTime, l.ConnMaxLifetime
	}
	return ps
}

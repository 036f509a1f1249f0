package profiler

import (
	"fmt"
	"time"
)

// cleared: the driver threw away what the pool had, because the server or the way to it failed. What is made anew then is not for the pool's
// settings to change.
func cleared(r *Report, p *PoolReport) (Finding, bool) {
	if p.Cleared == 0 {
		return Finding{}, false
	}
	f := Finding{
		ID: "pool_cleared", Severity: "warning", Subject: p.Name, Title: "the driver cleared the pool",
		Evidence: times(p.Cleared),
		Advice: "look for what cut connections or made the server step down (a restart, a failover, a middlebox, a heartbeat without an answer): " +
			"the connections that are made anew are its doing, and no setting of the pool's",
	}
	if p.ClearedFor != "" {
		f.Evidence += ", the last time after an error of class " + p.ClearedFor
	}
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Role == RolePool.String() && e.poolName() == p.Name {
			f.Evidence += fmt.Sprintf("; %d connections were closed as stale", e.ClosedBy[CloseStale.String()])
		}
	}
	return f, true
}

// establishmentLimited: callers waited while the pool was not full, because it makes only so many connections at a time. A larger pool
// would change nothing.
func establishmentLimited(p *PoolReport) (Finding, bool) {
	const (
		enough     = 20
		enoughTime = 100 * time.Millisecond
	)
	if p.MakingWaitCount == 0 || p.MakingWaitCount < enough && p.MakingWaitDuration < enoughTime {
		return Finding{}, false
	}
	at := ""
	if p.MaxMaking > 0 && p.Live == 1 {
		at = fmt.Sprintf(" (maxConnecting %d)", p.MaxMaking)
	}
	return Finding{
		ID: "establishment_limited", Severity: "warning", Subject: p.Name, Title: "callers queue for connections that are still being made",
		Evidence: fmt.Sprintf("%d callers waited %s each while as many connections were being made as the pool makes at a time%s, and the pool was not full",
			p.MakingWaitCount, round(p.MakingWaitDuration/time.Duration(p.MakingWaitCount)), at),
		Advice: "keep connections ready (minPoolSize, a longer maxIdleTimeMS), make them faster (see the phases of the create), or raise maxConnecting",
	}, true
}

// connectOutlastsWait: callers gave up sooner than a connection can be made, so that a new one is ready for the next of them only.
func connectOutlastsWait(e *EndpointReport) (Finding, bool) {
	made := e.Distribution(MeasureCreate, OK)
	var gaveUp Distribution
	for _, o := range []Outcome{Timeout, Canceled} {
		gaveUp.Merge(e.Distribution(MeasureWait, o))
	}
	if made == nil || gaveUp.Count == 0 || made.Quantile(0.5) <= gaveUp.Quantile(0.5) {
		return Finding{}, false
	}
	return Finding{
		ID: "connect_outlasts_wait", Severity: "warning", Subject: e.Address, Title: "callers give up before a connection can be made",
		Evidence: fmt.Sprintf("%d callers gave up after %s at the median, and making a connection takes %s (%d were made)", gaveUp.Count,
			round(gaveUp.Quantile(0.5)), round(made.Quantile(0.5)), made.Count),
		Advice: "keep connections ready (MinConns, MinIdleConns, minPoolSize, or a warm-up at the start), let callers wait longer than a connect " +
			"takes, or make connects faster (see the phases of the create)",
	}, true
}

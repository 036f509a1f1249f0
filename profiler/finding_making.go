package profiler

import (
	"fmt"
	"time"
)

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

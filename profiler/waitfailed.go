package profiler

import (
	"context"
	"time"
)

// WaitFailed says that a caller who had asked the pool of e at the instant asked gave up, or was refused, with err at the instant at: it
// waited, and got no connection. ctx is the caller's. It is counted as a wait with its outcome, and reported as KindWaitFailed.
func (p *Profiler) WaitFailed(ctx context.Context, e Endpoint, asked, at Instant, err error) {
	if p == nil || p.off.Load() || !asked.Known() || err == nil {
		return
	}
	p.waitFailed(ctx, markOf(ctx), e, asked, at, err)
}

func (p *Profiler) waitFailed(ctx context.Context, m *mark, e Endpoint, asked, at Instant, err error) {
	if !at.Known() {
		at = Now()
	}
	t := p.targets.get(e, p.maxEndpoints())
	s := t.get(RolePool, uint64(asked))
	wait, outcome := max(0, at.Sub(asked)), classifyIn(ctx, err)
	s.record(MeasureWait, outcome, wait)
	if !p.wants(m) {
		return
	}
	// A connection that never is one: it says where the caller wanted to go, and places the times.
	c := &Conn{p: p, s: s, role: RolePool, endpoint: &e, create: Create{Start: time.Now()}}
	c.started = InstantOf(c.create.Start)
	p.emit(ctx, m, &Event{Kind: KindWaitFailed, Conn: c, Op: Operation{
		Asked: c.Time(asked), Wait: wait, WaitKnown: true, End: c.Time(at), Err: err, Outcome: outcome,
	}})
}

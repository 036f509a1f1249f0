package profiler

import (
	"context"
	"sync/atomic"
)

// An Asker marks the calls of one pool's callers (Asked), and tells which of them got no connection, for pools that say nothing of their
// callers. Which pool of which Profiler it is, it learns from the first connection that one of its callers meets: before, those who give up
// are not counted. The zero value is ready. Its methods may be called concurrently.
type Asker struct{ pool atomic.Pointer[asked] }

// asked is the pool that an Asker's callers ask.
type asked struct {
	p *Profiler
	e Endpoint
}

// Asked is the function Asked, for one call.
func (a *Asker) Asked(ctx context.Context) context.Context { return askedBy(a, ctx) }

// GaveUp says that a call under ctx, which is from Asked, has ended with err. If ctx is done and no operation began under it, the caller had
// no connection by then: it is a wait that failed (Profiler.WaitFailed), until now.
func (a *Asker) GaveUp(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil {
		return
	}
	if to := a.pool.Load(); to != nil && to.p.Enabled() {
		to.p.WaitFailed(ctx, to.e, markOf(ctx).take(), 0, err)
	}
}

// meets notes that one of a's callers has met c. A nil Asker does not.
func (a *Asker) meets(c *Conn) {
	if a != nil && a.pool.Load() == nil {
		a.pool.CompareAndSwap(nil, &asked{c.p, *c.endpoint})
	}
}

package profiler

import (
	"context"
	"sync/atomic"
)

// An Asker marks the calls of one pool's callers (Asked), and tells how many of them wait, and which got no connection, for pools that say
// nothing of their callers. Which pool of which Profiler it is, it learns from the first connection that one of its callers meets: before,
// those who wait or give up are not counted. The zero value is ready. Its methods may be called concurrently.
type Asker struct{ pool atomic.Pointer[asked] }

// asked is the pool that an Asker's callers ask.
type asked struct {
	p   *Profiler
	e   Endpoint
	now *now
}

// Asked is the function Asked, for one call, of whose end Ended must be told.
func (a *Asker) Asked(ctx context.Context) context.Context { return askedBy(a, ctx) }

// Ended says that a call under ctx, which is from Asked, has ended with err. If ctx is done and no operation began under it, the caller had
// no connection by then: it is a wait that failed (Profiler.WaitFailed), until now.
func (a *Asker) Ended(ctx context.Context, err error) {
	m := markOf(ctx)
	asked := m.take()
	if !asked.Known() || err == nil || ctx.Err() == nil {
		return
	}
	if to := a.pool.Load(); to != nil && to.p.Enabled() {
		to.p.waitFailed(ctx, m, to.e, asked, 0, err)
	}
}

// meets notes that one of a's callers has met c. A nil Asker does not.
func (a *Asker) meets(c *Conn) {
	if a != nil && a.pool.Load() == nil {
		a.pool.CompareAndSwap(nil, &asked{c.p, *c.endpoint, c.s.now})
	}
}

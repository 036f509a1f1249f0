package pgxprof

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/profiler"
)

// acquiring is the context of an Acquire, and how far that is. A connect for it runs under its values.
type acquiring struct {
	context.Context
	pool      *poolHooks
	owner     *owner
	asked     profiler.Instant
	picked    profiler.Instant       // the pool chose a connection, the last one if there were several
	pinging   atomic.Pointer[member] // which it then checks
	pinged    profiler.Instant
	dead      int // how many were found dead before
	staleIdle time.Duration
}

type acquiringKey struct{}

func (a *acquiring) Value(key any) any {
	if key == (acquiringKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// acquireOf is the call of Acquire, on h's own pool, that waits for what runs under ctx. It is nil for what the pool does in the background.
func (h *poolHooks) acquireOf(ctx context.Context) *acquiring {
	a, ok := ctx.(*acquiring) // without a tracer of the program's, all of a pool's own contexts
	if !ok {
		a, _ = ctx.Value(acquiringKey{}).(*acquiring)
	}
	if a != nil && a.pool == h {
		return a
	}
	return nil
}

// TraceAcquireStart notes when the caller asked.
func (t *tracer) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	if h := t.hooks; h.pool != nil && h.p.Enabled() {
		a := &acquiring{Context: ctx, pool: h.pool, asked: profiler.Now()}
		a.owner = h.pool.owners.of(pool)
		ctx = a
	}
	if t.acquire != nil {
		ctx = t.acquire.TraceAcquireStart(ctx, pool, data)
	}
	t.callersOf(pool).pending.Add(1) // last, since it has no end if the program's tracer panics
	return ctx
}

// pick notes that the pool chose m's connection: the wait is over. What follows, if the connection is not new, is the pool's check that it
// is alive.
func (a *acquiring) pick(m *member) {
	a.picked = profiler.Now()
	a.died()
	if m == nil {
		return
	}
	if m.wantedAt == a.asked && a.owner != nil {
		a.owner.madeFor.Add(1)
		a.owner.madeWait.Add(int64(a.picked.Sub(a.asked)))
	}
	m.wantedAt, m.check = 0, 0
	m.ownedBy(a.owner)
}

// died says that the connection that was checked last did not answer: the pool chose another, or gave up.
func (a *acquiring) died() {
	if a.pinging.Load() == nil {
		return
	}
	m := a.pinging.Swap(nil)
	if at := m.c.ReturnedAt(); at.Known() {
		a.staleIdle = max(a.staleIdle, a.pinged.Sub(at))
	}
	a.dead++
	m.c.Stale(profiler.NoCaller, a.pinged)
}

// answered says that the connection that is checked did answer.
func (a *acquiring) answered() {
	if m := a.pinging.Load(); m != nil {
		a.pinging.Store(nil)
		m.check = profiler.Now().Sub(a.pinged)
		m.c.Checked(m.check)
		m.ping.Store(notPinged)
		m.exchanges.End()
	}
}

// The last liveness check of a connection. One that was abandoned goes on in the background, and the pool then takes the connection back or
// closes it.
const (
	notPinged uint32 = iota
	pinging
	abandoned
)

// pings is asked by the pool whether to check the connection that it chose. Without a hook of the program's it answers as the pool does by
// itself (pgxpool's Config.ShouldPing).
func (h *poolHooks) pings(ctx context.Context, params pgxpool.ShouldPingParams) bool {
	m, a := memberOf(params.Conn), h.acquireOf(ctx)
	if a != nil {
		m.made(nil) // if nobody has said so
		a.pick(m)
	}
	ping := params.IdleDuration > time.Second
	if h.shouldPing != nil {
		ping = h.shouldPing(ctx, params)
	}
	if ping && m != nil && a != nil {
		a.pinged = profiler.Now()
		a.pinging.Store(m)
		m.ping.Store(pinging)
		m.exchanges.Begin()
	}
	return ping
}

func (h *poolHooks) prepareConn(ctx context.Context, conn *pgx.Conn) (ok bool, err error) {
	var fit bool
	defer h.inHook(ctx, conn, &fit)()
	ok, err = h.prepare(ctx, conn)
	fit = ok && (err == nil || h.acquireOf(ctx) != nil) // AcquireAllIdle keeps none with an error
	return ok, err
}

func (h *poolHooks) beforeAcquire(ctx context.Context, conn *pgx.Conn) (ok bool) {
	defer h.inHook(ctx, conn, &ok)()
	return h.acquire(ctx, conn)
}

func (h *poolHooks) afterRelease(conn *pgx.Conn) (ok bool) {
	defer h.inHook(context.Background(), conn, &ok)()
	return h.release(conn)
}

// inHook is for the time that a hook of the program's has a connection which is no caller's: what runs on it is no operation. The returned
// function ends it; *ok is then whether the pool may keep the connection.
func (h *poolHooks) inHook(ctx context.Context, conn *pgx.Conn, ok *bool) func() {
	if a := h.acquireOf(ctx); a != nil {
		a.answered()
	}
	m := memberOf(conn)
	if m == nil {
		return func() {}
	}
	m.hook = true
	return func() {
		m.hook = false
		if !*ok {
			m.unfit = errRefused
		}
	}
}

// TraceAcquireEnd begins the use of a connection, or ends a wait without one.
func (t *tracer) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	t.callersOf(pool).answered(data.Err)
	if h := t.hooks.pool; h != nil {
		if a := h.acquireOf(ctx); a != nil {
			a.end(t.hooks, data)
		}
	}
	if t.acquire != nil {
		t.acquire.TraceAcquireEnd(ctx, pool, data)
	}
}

func (a *acquiring) end(h *hooks, data pgxpool.TraceAcquireEndData) {
	if m := memberOf(data.Conn); m != nil {
		a.answered()
		if !a.picked.Known() { // somebody has replaced the hook that tells
			m.made(nil)
			a.pick(m)
		}
		m.c.CheckedOut(a.Context, a.asked, a.picked)
		m.c.AfterDead(a.dead, a.staleIdle)
		return
	}
	if data.Err == nil {
		return
	}
	now := profiler.Now()
	if m := a.pinging.Load(); m != nil && a.Err() != nil && m.ping.CompareAndSwap(pinging, abandoned) {
		a.pinging.Store(nil)
	}
	a.died()
	h.p.WaitFailed(a.Context, h.dialer.Endpoint, a.asked, now, data.Err)
}

// TraceRelease ends it.
func (t *tracer) TraceRelease(pool *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if m := memberOf(data.Conn); m != nil {
		m.c.CheckedIn(0)
		m.check = 0 // of a use that ran nothing
		if m.owner == nil && m.pool != nil {
			m.ownedBy(m.pool.owners.of(pool))
		}
		m.released(data.Conn)
	}
	if t.release != nil {
		t.release.TraceRelease(pool, data)
	}
}

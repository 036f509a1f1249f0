package pgxprof

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/profiler"
)

// poolHooks are a pool's own hooks around a connect, and what watches them. They are there only where the program has such hooks:
// otherwise pgx's connect is the whole create.
type poolHooks struct {
	p      *profiler.Profiler
	before func(context.Context, *pgx.ConnConfig) error
	after  func(context.Context, *pgx.Conn) error
}

func (h *poolHooks) set(cfg *pgxpool.Config) {
	h.before, h.after = cfg.BeforeConnect, cfg.AfterConnect
	if h.before == nil && h.after == nil {
		return
	}
	cfg.BeforeConnect = h.beforeConnect
	if h.after != nil {
		cfg.AfterConnect = h.afterConnect
	}
}

// undo takes h out of cfg, but for what the program has replaced since.
func (h *poolHooks) undo(cfg *pgxpool.Config) {
	if cfg.BeforeConnect != nil && same(cfg.BeforeConnect, h.beforeConnect) {
		cfg.BeforeConnect = h.before
	}
	if cfg.AfterConnect != nil && same(cfg.AfterConnect, h.afterConnect) {
		cfg.AfterConnect = h.after
	}
}

// beforeConnect begins the create, and hands it to the tracer of this one connect. The program's hook may replace what watches the connect
// with hooks of its own: it is put over them again.
func (h *poolHooks) beforeConnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	c := h.p.NewConn(endpoint(cfg), profiler.RolePool)
	if h.before != nil {
		err := h.before(ctx, cfg)
		c.Cut(profiler.Hook, profiler.Now())
		if err != nil {
			c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Hook })
			c.Fail(callerOf(ctx), err)
			return err
		}
	}
	set(h.p, cfg, h).begun.Store(c)
	return nil
}

// afterConnect ends the create.
func (h *poolHooks) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	err := h.after(ctx, conn)
	memberOf(conn).made(err)
	return err
}

// acquiring is the context of an Acquire. A connect for it runs under its values.
type acquiring struct {
	context.Context
	asked profiler.Instant
}

type acquiringKey struct{}

func (a *acquiring) Value(key any) any {
	if key == (acquiringKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// callerOf is ctx if a caller of the pool waits for what runs under it, else profiler.NoCaller: the pool makes connections in the
// background, too.
func callerOf(ctx context.Context) context.Context {
	if ctx.Value(acquiringKey{}) == nil {
		return profiler.NoCaller
	}
	return ctx
}

// TraceAcquireStart notes when the caller asked.
func (t *tracer) TraceAcquireStart(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	t.callers.pending.Add(1)
	ctx = &acquiring{ctx, profiler.Now()}
	if t.acquire != nil {
		ctx = t.acquire.TraceAcquireStart(ctx, pool, data)
	}
	return ctx
}

// TraceAcquireEnd begins the use of a connection.
func (t *tracer) TraceAcquireEnd(ctx context.Context, pool *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	t.callers.answered(data.Err)
	if m := memberOf(data.Conn); m != nil {
		m.made(nil) // if nobody has said so
		var asked profiler.Instant
		if a, ok := ctx.Value(acquiringKey{}).(*acquiring); ok {
			asked = a.asked
		}
		m.c.CheckedOut(ctx, asked, profiler.Now())
	}
	if t.acquire != nil {
		t.acquire.TraceAcquireEnd(ctx, pool, data)
	}
}

// TraceRelease ends it.
func (t *tracer) TraceRelease(pool *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if m := memberOf(data.Conn); m != nil {
		m.c.CheckedIn(profiler.Now())
	}
	if t.release != nil {
		t.release.TraceRelease(pool, data)
	}
}

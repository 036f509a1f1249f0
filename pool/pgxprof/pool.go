package pgxprof

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/profiler"
)

// poolHooks are a pool's own hooks, the program's and what watches them.
type poolHooks struct {
	p   *profiler.Profiler
	cfg *pgxpool.Config // what the pool is made with

	before     func(context.Context, *pgx.ConnConfig) error
	after      func(context.Context, *pgx.Conn) error
	acquire    func(context.Context, *pgx.Conn) bool
	prepare    func(context.Context, *pgx.Conn) (bool, error)
	release    func(*pgx.Conn) bool
	closing    func(*pgx.Conn)
	shouldPing func(context.Context, pgxpool.ShouldPingParams) bool

	limits limits
	owners owners
	lost   lost
}

// limits are those of the configuration when a pool first connected, which the program may change until then: for connections of which
// nothing tells the pool.
type limits struct {
	once           sync.Once
	life, idleTime time.Duration
}

// set puts hooks of h into cfg. Of BeforeConnect and AfterConnect only where the program has some: otherwise pgx's connect is the whole
// create.
func (h *poolHooks) set(cfg *pgxpool.Config) {
	h.cfg = cfg
	h.before, h.after = cfg.BeforeConnect, cfg.AfterConnect
	if h.before != nil || h.after != nil {
		cfg.BeforeConnect = h.beforeConnect
	}
	if h.after != nil {
		cfg.AfterConnect = h.afterConnect
	}
	if place := acquireHook(cfg); *place != nil {
		h.acquire, *place = *place, h.beforeAcquire
	}
	if h.prepare = cfg.PrepareConn; h.prepare != nil {
		cfg.PrepareConn = h.prepareConn
	}
	if h.release = cfg.AfterRelease; h.release != nil {
		cfg.AfterRelease = h.afterRelease
	}
	h.closing, cfg.BeforeClose = cfg.BeforeClose, h.beforeClose
	h.shouldPing, cfg.ShouldPing = cfg.ShouldPing, h.pings
}

// acquireHook is the older form of PrepareConn.
func acquireHook(cfg *pgxpool.Config) *func(context.Context, *pgx.Conn) bool {
	//lint:ignore SA1019 programs that set it keep it
	return &cfg.BeforeAcquire
}

// undo takes h out of cfg, but for what the program has replaced since.
func (h *poolHooks) undo(cfg *pgxpool.Config) {
	restore(&cfg.BeforeConnect, h.beforeConnect, h.before)
	restore(&cfg.AfterConnect, h.afterConnect, h.after)
	restore(acquireHook(cfg), h.beforeAcquire, h.acquire)
	restore(&cfg.PrepareConn, h.prepareConn, h.prepare)
	restore(&cfg.AfterRelease, h.afterRelease, h.release)
	restore(&cfg.BeforeClose, h.beforeClose, h.closing)
	restore(&cfg.ShouldPing, h.pings, h.shouldPing)
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
			caller := ctx
			if h.acquireOf(ctx) == nil {
				caller = profiler.NoCaller
			}
			c.Fail(caller, err)
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

// connecting notes what a connect under ctx tells of the pool.
func (h *poolHooks) connecting(ctx context.Context, a *acquiring, cn *connecting) {
	h.limits.once.Do(func() { h.limits.life, h.limits.idleTime = h.cfg.MaxConnLifetime, h.cfg.MaxConnIdleTime })
	if reflect.TypeOf(ctx).String() == "*puddle.valueCancelCtx" {
		// The context of a connect for a caller ends with the pool (puddle v2.2.3, pool.go, initResourceValue): its values are the caller's.
		cn.closed = ctx.Done()
	}
	if a != nil && a.owner != nil {
		cn.owner = a.owner
		if cn.closed != nil && cn.owner.closed.Load() == nil {
			cn.owner.closed.Store(&cn.closed)
		}
	} else if o := h.owners.only(); o != nil {
		cn.later = o.over()
	}
	reason := profiler.CloseUnknown
	if a == nil || !a.pinging.Load().replace() {
		reason = h.lost.take()
	} else {
		reason = profiler.CloseStale // while the pool closes that one on another goroutine
	}
	if reason != profiler.CloseUnknown {
		cn.c.Update(func(cr *profiler.Create) { cr.Replaces = reason })
	}
}

// lost are the reasons of closes that the pool did not want, and has not made up for.
type lost struct {
	mu      sync.Mutex
	reasons []profiler.CloseReason // mu: the oldest first
}

// maxLost bounds them. A pool that is not used makes up for none.
const maxLost = 256

// lose notes that m's connection was lost, if it was for a reason that the pool makes up for.
func (m *member) lose(reason profiler.CloseReason) {
	if m.pool == nil || !m.replace() {
		return
	}
	switch reason {
	case profiler.CloseCanceled, profiler.CloseError, profiler.CloseStale:
		l := &m.pool.lost
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.reasons) >= maxLost {
			l.reasons = l.reasons[1:]
		}
		l.reasons = append(l.reasons, reason)
	}
}

// replace reports whether nobody has made up for m's connection, or noted its loss; it then counts as if somebody had.
func (m *member) replace() bool { return m != nil && m.replaced.CompareAndSwap(false, true) }

func (l *lost) take() profiler.CloseReason {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reasons) == 0 {
		return profiler.CloseUnknown
	}
	reason := l.reasons[0]
	l.reasons = l.reasons[1:]
	return reason
}

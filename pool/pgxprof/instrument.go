package pgxprof

import (
	"context"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/profiler"
)

// Instrument returns a copy of cfg whose pool is profiled by p; cfg itself is not changed. A nil p returns cfg as it is. What cfg has of
// its own keeps working: its LookupFunc and DialFunc are called inside ours, its tracer, ValidateConnect, BeforeConnect and AfterConnect at
// the same moments as before. A tracer is called after ours, so that at the end of a query its span is still open.
//
// A cfg that was instrumented before is taken apart first, so that nothing is recorded twice. Set hooks before, not after: the queries of
// an AfterConnect that is set on the result count as the pool's.
func Instrument(p *profiler.Profiler, cfg *pgxpool.Config) *pgxpool.Config {
	if p == nil || cfg == nil || cfg.ConnConfig == nil { // of the latter NewWithConfig tells what is wrong
		return cfg
	}
	cfg = cfg.Copy()
	if t, ok := cfg.ConnConfig.Tracer.(*tracer); ok && t.hooks.pool != nil {
		t.hooks.pool.undo(cfg)
	}
	h := &poolHooks{p: p}
	h.set(cfg)
	set(p, cfg.ConnConfig, h)
	return cfg
}

// InstrumentConn is Instrument for connections that are made one by one, or by database/sql. A nil p or cfg gives cfg as it is.
func InstrumentConn(p *profiler.Profiler, cfg *pgx.ConnConfig) *pgx.ConnConfig {
	if p == nil || cfg == nil {
		return cfg
	}
	cfg = cfg.Copy()
	set(p, cfg, nil)
	return cfg
}

// hooks are what watches the connects of one configuration, and what was there before.
type hooks struct {
	p      *profiler.Profiler
	dialer handshake.Dialer
	pool   *poolHooks // nil for a configuration of no pool

	lookup   pgconn.LookupFunc
	dial     pgconn.DialFunc
	validate pgconn.ValidateConnectFunc
	pgError  pgconn.PgErrorHandler
	tracer   pgx.QueryTracer
}

// set puts hooks of p into cfg and returns the tracer among them. Those of ours that are there already are taken out first. A tracer that
// the program has put over ours leaves the other hooks without one that knows them: they do what new ones would, and stay.
func set(p *profiler.Profiler, cfg *pgx.ConnConfig, pool *poolHooks) *tracer {
	if t, ok := cfg.Tracer.(*tracer); ok {
		t.hooks.undo(cfg)
	}
	h := &hooks{p: p, pool: pool, lookup: cfg.LookupFunc, dial: cfg.DialFunc, validate: cfg.ValidateConnect, tracer: cfg.Tracer}
	h.dialer = handshake.Dialer{
		Profiler: p, Endpoint: endpoint(cfg), Role: profiler.RoleCancel, DialFunc: h.dial, LookupFunc: h.lookup,
	}
	if cfg.AfterConnect != nil || pool != nil && pool.after != nil {
		h.dialer.SetupTurns = -1
	}
	if !same(cfg.OnPgError, (*hooks)(nil).onPgError) {
		h.pgError = cfg.OnPgError
		cfg.OnPgError = h.onPgError
	}
	if !same(cfg.LookupFunc, (*hooks)(nil).lookupHost) {
		cfg.LookupFunc = h.lookupHost
	}
	if !same(cfg.DialFunc, (*hooks)(nil).dialContext) {
		cfg.DialFunc = h.dialContext
	}
	if !same(cfg.ValidateConnect, (*hooks)(nil).validateConnect) {
		cfg.ValidateConnect = h.validateConnect
	}
	t := newTracer(h)
	cfg.Tracer = t
	return t
}

// undo takes h out of cfg, but for what the program has replaced since.
func (h *hooks) undo(cfg *pgx.ConnConfig) {
	restore(&cfg.LookupFunc, h.lookupHost, h.lookup)
	restore(&cfg.DialFunc, h.dialContext, h.dial)
	restore(&cfg.ValidateConnect, h.validateConnect, h.validate)
	restore(&cfg.OnPgError, h.onPgError, h.pgError)
	cfg.Tracer = h.tracer
}

func (h *hooks) lookupHost(ctx context.Context, host string) ([]string, error) {
	return h.dialer.LookupHost(ctx, host)
}

func (h *hooks) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return h.dialer.DialContext(ctx, network, address)
}

// validateConnect runs right after the server's ReadyForQuery (pgconn.go, connectOne).
func (h *hooks) validateConnect(ctx context.Context, conn *pgconn.PgConn) error {
	now := profiler.Now()
	handshake.Accepted(conn.Conn())
	c, inside := profiler.FromContext(ctx), false
	c.Update(func(cr *profiler.Create) {
		cr.Wire.ServerVersion = conn.ParameterStatus("server_version")
		inside = cr.TLS.Inside
	})
	if inside { // a *tls.Conn of the program's own dialer, under which nobody watches
		c.Cut(profiler.Auth, now)
	}
	if h.validate == nil {
		return nil
	}
	err := h.validate(ctx, conn)
	if err != nil {
		handshake.Refused(conn.Conn(), err)
	}
	return err
}

// onPgError sees what the server answers to a login that pgx may repeat elsewhere, and that the connection is about to be closed for what it
// answered.
func (h *hooks) onPgError(conn *pgconn.PgConn, err *pgconn.PgError) bool {
	m, _ := conn.CustomData()[memberKey].(*member)
	if m == nil {
		handshake.Refused(conn.Conn(), err)
	}
	keep := h.pgError == nil || h.pgError(conn, err)
	if !keep && m != nil {
		m.exchanges.Failed()
	}
	return keep
}

// endpoint is the first of a configuration's hosts: where all of them lead is one database.
func endpoint(cfg *pgx.ConnConfig) profiler.Endpoint {
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	if network != "unix" {
		address = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	return profiler.Endpoint{System: "postgresql", Address: address, Namespace: cfg.Database}
}

package pgxprof

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/internal/sqlopener"
	"github.com/connprof/connprof/profiler"
)

// connecting is one connect of pgx. It travels in the connect's context, beside the profiler.Conn that the dialer looks for.
type connecting struct {
	c      *profiler.Conn
	caller context.Context  // profiler.NoCaller if a pool connects in the background
	asked  profiler.Instant // when the caller asked the pool
	mode   pgx.QueryExecMode
	pooled bool            // the pool's AfterConnect follows, and ends the create
	owner  *owner          // the caller's; nil if a pool connects in the background
	closed <-chan struct{} // is closed when the pool is; nil if that is not known
	later  bool            // the one pool that had been seen was closed by then: it is another's
}

type connectingKey struct{}

// TraceConnectStart begins the create, unless the pool's hooks have.
func (t *tracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	if !owned(ctx) {
		cn := t.begin(ctx)
		if data.ConnConfig != nil {
			cn.mode = data.ConnConfig.DefaultQueryExecMode
		}
		ctx = profiler.NewContext(context.WithValue(ctx, connectingKey{}, cn), cn.c)
	}
	if t.connect != nil {
		ctx = t.connect.TraceConnectStart(ctx, data)
	}
	return ctx
}

// owned reports whether someone else makes the connection, and counts what runs on it: a pool.Connector over pgx's own.
func owned(ctx context.Context) bool {
	c := profiler.FromContext(ctx)
	if c == nil || c.Create() != nil || ctx.Value(connectingKey{}) != nil {
		return false
	}
	system := c.Endpoint().System // a connect of another driver's, one of whose hooks connects here
	return system != "mysql" && system != "mongodb"
}

func (t *tracer) begin(ctx context.Context) *connecting {
	h := t.hooks
	cn := &connecting{c: t.begun.Swap(nil), caller: ctx}
	if cn.c == nil {
		cn.c = h.p.NewConn(h.dialer.Endpoint, profiler.RolePool)
	} else {
		cn.pooled = h.pool.after != nil
	}
	cn.c.CloseWithWire()
	if h.pool == nil {
		if sqlopener.Background() {
			cn.caller = profiler.NoCaller
		}
		return cn
	}
	a := h.pool.acquireOf(ctx)
	if a != nil {
		cn.asked = a.asked
	} else {
		cn.caller = profiler.NoCaller
	}
	h.pool.connecting(ctx, a, cn)
	return cn
}

// TraceConnectEnd ends the create, unless the pool's AfterConnect follows.
func (t *tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if cn, ok := ctx.Value(connectingKey{}).(*connecting); ok && cn.c != nil {
		t.hooks.end(cn, data)
	}
	if t.connect != nil {
		t.connect.TraceConnectEnd(ctx, data)
	}
}

func (h *hooks) end(cn *connecting, data pgx.TraceConnectEndData) {
	if data.Err != nil || data.Conn == nil || data.Conn.PgConn() == nil { // the latter where a hook of the program's panics
		cn.c.Fail(cn.caller, data.Err)
		return
	}
	m := &member{
		c: cn.c, connecting: cn, pool: h.pool, owner: cn.owner, poolClosed: cn.closed, later: cn.later, mode: cn.mode, wantedAt: cn.asked,
		exchanges: handshake.ExchangesOf(data.Conn.PgConn().Conn()),
	}
	if h.pool == nil { // whether it is database/sql that gives it to callers, nothing tells
		m.c.ReturnsUnseen()
	}
	data.Conn.PgConn().CustomData()[memberKey] = m
	if !cn.pooled {
		m.made(nil)
	}
}

const memberKey = "connprof" // short, since each query looks it up

// memberOf is nil for a connection that is not watched.
func memberOf(conn *pgx.Conn) *member {
	if conn == nil {
		return nil
	}
	pc := conn.PgConn()
	if pc == nil {
		return nil
	}
	m, _ := pc.CustomData()[memberKey].(*member)
	return m
}

// made ends the create with err or without. Only the first call counts.
func (m *member) made(err error) {
	if m == nil || m.connecting == nil {
		return
	}
	caller := m.connecting.caller
	m.connecting = nil
	if err != nil {
		m.c.Fail(caller, err)
	} else {
		m.c.Ready(caller)
	}
}

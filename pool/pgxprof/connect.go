package pgxprof

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/profiler"
)

// connecting is one connect of pgx. It travels in the connect's context, beside the profiler.Conn that the dialer looks for.
type connecting struct {
	c      *profiler.Conn
	caller context.Context // profiler.NoCaller if the pool connects in the background
	pooled bool            // the pool's AfterConnect follows, and ends the create
}

type connectingKey struct{}

// TraceConnectStart begins the create, unless the pool's hooks have.
func (t *tracer) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	h := t.hooks
	cn := &connecting{c: t.begun.Swap(nil), caller: ctx}
	if h.pool != nil {
		cn.caller = callerOf(ctx)
	}
	if cn.c != nil {
		cn.pooled = h.pool.after != nil
	} else {
		cn.c = h.p.NewConn(h.dialer.Endpoint, profiler.RolePool)
	}
	cn.c.CloseWithWire()
	ctx = profiler.NewContext(context.WithValue(ctx, connectingKey{}, cn), cn.c)
	if t.connect != nil {
		ctx = t.connect.TraceConnectStart(ctx, data)
	}
	return ctx
}

// TraceConnectEnd ends the create, unless the pool's AfterConnect follows.
func (t *tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if cn, ok := ctx.Value(connectingKey{}).(*connecting); ok && cn.c != nil {
		cn.end(data)
	}
	if t.connect != nil {
		t.connect.TraceConnectEnd(ctx, data)
	}
}

func (cn *connecting) end(data pgx.TraceConnectEndData) {
	if data.Err != nil || data.Conn == nil || data.Conn.PgConn() == nil { // the latter where a hook of the program's panics
		cn.c.Fail(cn.caller, data.Err)
		return
	}
	m := &member{c: cn.c, connecting: cn}
	data.Conn.PgConn().CustomData()[memberKey] = m
	if !cn.pooled {
		m.made(nil)
	}
}

// member is what is kept of a connection, in its PgConn's CustomData. Like the connection it has one user at a time. All methods of a nil
// member do nothing.
type member struct {
	c          *profiler.Conn
	connecting *connecting // until the create ends
	op         profiler.Op
	depth      int // operations begun and not ended, of which op is the outermost
}

const memberKey = "github.com/connprof/connprof/pool/pgxprof"

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

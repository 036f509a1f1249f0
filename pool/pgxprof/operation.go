package pgxprof

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/profiler"
)

// member is what is kept of a connection, in its PgConn's CustomData. Like the connection it has one user at a time, if nothing else is
// said. All methods of a nil member do nothing.
type member struct {
	c          *profiler.Conn
	connecting *connecting // until the create ends
	exchanges  *handshake.Exchanges
	mode       pgx.QueryExecMode // of the connection

	op       profiler.Op
	kind     profiler.OpKind // of op
	depth    int             // operations begun and not ended, of which op is the outermost
	args     []any           // of op
	prepares profiler.Instant
	named    bool          // what is being prepared has a name
	check    time.Duration // the liveness check before this use; its first operation takes it

	pool       *poolHooks       // nil for a connection of no pool
	owner      *owner           // which one, nil until that is known
	poolClosed <-chan struct{}  // connecting.closed
	later      bool             // connecting.later
	wantedAt   profiler.Instant // when the caller asked for whom it was made, until someone gets it
	hook       bool             // a hook of the pool's runs
	unfit      error            // why the pool closes it, where that is known before
	ping       atomic.Uint32    // the last liveness check, see acquire.go
	over       atomic.Bool      // its end is reported
	replaced   atomic.Bool      // and noted as a loss
}

// begin begins an operation. One inside another is part of it: a statement that is prepared for a query, or a query that pgx refuses
// because the rows of the one before are not closed. What runs before hand-over, or in a hook of the pool's, is none.
func (m *member) begin(ctx context.Context, conn *pgx.Conn, k profiler.OpKind, text string, args []any) {
	if m == nil || m.connecting != nil || m.hook {
		return
	}
	if m.depth > 0 && k != profiler.OpPrepare && !conn.PgConn().IsBusy() {
		m.forgotten()
	}
	if m.depth++; m.depth > 1 {
		return
	}
	m.kind, m.args = k, args
	m.c.BeginIn(&m.op, ctx, k, 0)
	m.op.Text = text
	m.op.Check, m.check = m.check, 0
	m.exchanges.Begin()
}

// forgotten ends an operation of which pgx did not tell the end: a CopyFrom that could not find out about its table's columns
// (copy_from.go, run).
func (m *member) forgotten() {
	m.exchanges.End()
	m.op.Exclude(0)
	m.depth, m.args = 0, nil
}

// end ends it. An error that cost the connection is why that closes: pgx goes on closing in the background.
func (m *member) end(ctx context.Context, conn *pgx.Conn, k profiler.OpKind, err error) {
	if m == nil || m.depth == 0 || k == profiler.OpBatch && m.kind != k { // a batch that failed at once ends twice (conn.go, sendBatch)
		return
	}
	if m.depth--; m.depth > 0 {
		return
	}
	m.args = nil
	turns, answered := m.exchanges.Answered()
	if m.kind == profiler.OpCopy { // its data is sent without waiting for the server's word (pgconn.go, CopyFrom)
		if turns, answered = 0, 0; err == nil {
			turns = 1
		}
		if err == nil && m.op.Prepared != profiler.NotPrepared {
			turns++
		}
	}
	m.op.Turns = turns
	m.op.Sent, m.op.Received, m.op.BytesKnown = m.exchanges.Bytes()
	if answered.Known() && (err == nil || errors.As(err, new(*pgconn.PgError))) {
		m.op.Responded(ctx, answered, err)
	}
	m.op.End(ctx, 0, err)
	if err != nil && conn.IsClosed() {
		reason := profiler.CloseError
		if ctx.Err() != nil {
			reason = profiler.CloseCanceled
		}
		m.closed(reason, err)
	}
	m.exchanges.End()
}

// closed reports the connection's end. It may be called from any goroutine.
func (m *member) closed(reason profiler.CloseReason, err error) {
	if m.over.CompareAndSwap(false, true) {
		m.c.Closed(reason, err)
		m.lose(reason)
	}
}

// prepare begins the preparing of a statement, of its own or for an operation.
func (m *member) prepare(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) {
	m.begin(ctx, conn, profiler.OpPrepare, data.SQL, nil)
	if m != nil && m.depth == 2 {
		m.prepares, m.named = profiler.Now(), data.Name != ""
	}
}

func (m *member) prepared(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	if m != nil && m.depth == 2 && m.prepares.Known() && !data.AlreadyPrepared {
		took := profiler.Now().Sub(m.prepares)
		m.op.Preparing += took
		if m.op.Prepared = profiler.PreparedKept; !m.named && modeOf(m.args, m.mode) != pgx.QueryExecModeCacheDescribe {
			m.op.Prepared = profiler.PreparedOnce
			m.c.PreparedFor(took)
		}
		m.prepares = 0
		if data.Err != nil && m.kind == profiler.OpCopy { // it ends here, and pgx does not say so
			m.depth--
			m.end(ctx, conn, profiler.OpCopy, data.Err)
			return
		}
	}
	m.end(ctx, conn, profiler.OpPrepare, data.Err)
}

// modeOf is the mode of a query: the last one among the options that begin its arguments (conn.go, Query), or else the connection's.
func modeOf(args []any, mode pgx.QueryExecMode) pgx.QueryExecMode {
	for _, a := range args {
		switch a := a.(type) {
		case pgx.QueryExecMode:
			mode = a
		case pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryRewriter:
		default:
			return mode
		}
	}
	return mode
}

// kindOf tells the statements that pgx itself sends for a Tx (tx.go) from the program's: to its tracer all are queries.
func kindOf(sql string) profiler.OpKind {
	switch {
	case sql == "commit":
		return profiler.OpCommit
	case sql == "rollback":
		return profiler.OpRollback
	case strings.HasPrefix(sql, "begin") && begins(sql[len("begin"):]):
		return profiler.OpBegin
	}
	return profiler.OpQuery
}

// begins reports whether options are those of a begin (renderBeginSQL).
func begins(options string) bool {
	cut := func(before string, of ...string) {
		for _, o := range of {
			if rest, ok := strings.CutPrefix(options, before+o); ok && (rest == "" || rest[0] == ' ') {
				options = rest
				return
			}
		}
	}
	if options != "" {
		cut(" isolation level ", string(pgx.Serializable), string(pgx.RepeatableRead), string(pgx.ReadCommitted), string(pgx.ReadUncommitted))
		cut(" ", string(pgx.ReadWrite), string(pgx.ReadOnly))
		cut(" ", string(pgx.Deferrable), string(pgx.NotDeferrable))
	}
	return options == ""
}

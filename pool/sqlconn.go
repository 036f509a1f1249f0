//lint:file-ignore SA1019 database/sql still asks drivers for these interfaces, and so must a wrapper

package pool

import (
	"context"
	"database/sql/driver"
	"errors"
	"reflect"
	"runtime"

	"github.com/connprof/connprof/profiler"
)

// sqlConn is what every wrapped driver.Conn is made of; wrapConn adds the optional interfaces. database/sql holds a connection's lock
// around all calls, so that the fields need none.
//
// Where an optional interface has a neutral answer, the wrapper always has it and gives that answer for a driver without it, as
// database/sql itself does (ctxutil.go): Pinger, ConnPrepareContext, ConnBeginTx, NamedValueChecker.
type sqlConn struct {
	inner driver.Conn
	of    *profiler.Conn

	execer    driver.ExecerContext
	queryer   driver.QueryerContext
	oldExec   driver.Execer
	oldQuery  driver.Queryer
	resetter  driver.SessionResetter
	validator driver.Validator

	ops   int  // operations of this checkout; here, so that slot's Op begins at 16 bytes, and no store into it crosses a page
	slot  rows // the Rows of a checkout's first query, so that it costs no allocation
	busy  bool // slot is in use
	turns bool // Connector.TurnPerCall
	used  bool // it has come back to the pool before
	inTx  bool // a transaction holds it

	plain context.Context // the checkout's, if it is known to carry no mark, until its first operation

	declined profiler.Instant // entry of a query that the driver declined (ErrSkip): it goes on as Prepare and Stmt
	returned profiler.Instant // when it last came back to the pool, zero while in use; kept only for closes
	wire     wire
	closes   *closes // of the pool, nil if that is not known
	reason   profiler.CloseReason
	outcome  profiler.Outcome // of the last operation that failed
	err      error            // its error
}

func (c *sqlConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext is an operation of its own, unless it continues a query that the driver declined to run at once.
func (c *sqlConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	start := c.declined
	c.declined = 0
	oneShot := start.Known()
	if !oneShot {
		start = profiler.Now()
	}
	began := start
	if oneShot {
		began = profiler.Now()
	}
	s, err := c.prepare(ctx, query)
	if oneShot && err == nil {
		c.of.PreparedFor(profiler.Now().Sub(began))
		return wrapStmt(s, c, query, start).exact(), nil
	}
	var op profiler.Op
	c.begin(ctx, &op, profiler.OpPrepare, start, query, oneShot)
	c.took(&op, 1)
	c.end(ctx, &op, err)
	if err != nil {
		return s, err
	}
	w := wrapStmt(s, c, query, 0)
	runtime.Callers(2, w.preparer[:])
	return w.exact(), nil
}

func (c *sqlConn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.inner.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	s, err := c.inner.Prepare(query)
	if err == nil && ctx.Err() != nil {
		s.Close()
		return nil, ctx.Err()
	}
	return s, err
}

// Close closes the driver's connection and tells why, if the connection's own history knows; else the pool's counters may tell later.
func (c *sqlConn) Close() error {
	err := c.inner.Close()
	if c.reason == profiler.CloseUnknown {
		c.closes.closed(c.of, c.returned)
	} else {
		c.of.Closed(c.reason, c.err)
	}
	return err
}

func (c *sqlConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx refuses what a driver without ConnBeginTx can't do, with database/sql's own words.
func (c *sqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var op profiler.Op
	c.begin(ctx, &op, profiler.OpBegin, profiler.Now(), "", false)
	t, err := c.beginTx(ctx, opts)
	if opts.Isolation == 0 {
		c.took(&op, 1)
	} else {
		c.took(&op, 2)
	}
	c.end(ctx, &op, err)
	if err != nil {
		return t, err
	}
	c.inTx = true
	return &tx{inner: t, conn: c, ctx: ctx}, nil
}

func (c *sqlConn) beginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.inner.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, opts)
	}
	if opts.Isolation != 0 {
		return nil, errors.New("sql: driver does not support non-default isolation level")
	}
	if opts.ReadOnly {
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	t, err := c.inner.Begin()
	if err == nil && ctx.Err() != nil {
		t.Rollback()
		return nil, ctx.Err()
	}
	return t, err
}

// Ping is not an operation.
func (c *sqlConn) Ping(ctx context.Context) error {
	if p, ok := c.inner.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// CheckNamedValue leaves the argument to database/sql if the driver has no say.
func (c *sqlConn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.inner.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *sqlConn) checkedOut(ctx context.Context) {
	if c.plain = nil; c.of.CheckedOut(ctx, 0, 0) {
		c.plain = ctx
	}
}

// markedBy is where to look for the mark of an operation under ctx: once a checkout, not twice. The operation that caused the checkout
// has its very context. Ask it only if there is such a context (plain).
func (c *sqlConn) markedBy(ctx context.Context) context.Context {
	p := c.plain
	c.plain = nil
	if reflect.TypeOf(ctx).Kind() == reflect.Pointer && p == ctx { // other kinds may not be comparable
		return context.Background()
	}
	return ctx
}

// begin begins op, the caller's variable: an Op is large enough for a copy to show in what an operation costs.
func (c *sqlConn) begin(ctx context.Context, op *profiler.Op, k profiler.OpKind, at profiler.Instant, text string, goesOn bool) {
	c.declined = 0
	marked := ctx
	if c.plain != nil {
		marked = c.markedBy(ctx)
	}
	c.of.BeginIn(op, marked, k, at)
	op.Text = text
	if c.wire.meter != nil {
		c.wire.begin(ctx, op, goesOn)
	}
}

// took says how many round trips the operation took, if the driver is one of which that is known. One that fails may have taken fewer.
func (c *sqlConn) took(op *profiler.Op, turns int) {
	if c.turns {
		op.Turns = turns
	}
}

// end ends an operation that has no rows, now.
func (c *sqlConn) end(ctx context.Context, op *profiler.Op, err error) { c.endOf(ctx, op, err, nil) }

// endOf is end for an operation on a statement.
func (c *sqlConn) endOf(ctx context.Context, op *profiler.Op, err error, s *stmt) {
	at := profiler.Now()
	if err != nil {
		op.Turns = 0
	}
	if op.Metered {
		c.wire.responded(op, err)
		c.wire.end(op)
	}
	if err == nil {
		c.ops++
		op.End(ctx, at, nil)
		return
	}
	if c.repeated(op, err, s) {
		return
	}
	c.ops++
	op.End(ctx, at, err)
	c.failed(op, err)
}

// repeated reports whether the operation was none, because database/sql repeats what met a dead connection. It repeats the calls of all
// statements: those of a transaction on the same connection, whose last try has failed like a single one; for one that a sql.Conn prepared it
// finds that connection closed, and gives up.
func (c *sqlConn) repeated(op *profiler.Op, err error, s *stmt) bool {
	if !errors.Is(err, driver.ErrBadConn) {
		return false
	}
	c.reason, c.err = profiler.CloseError, err
	if c.used && c.ops == 0 {
		c.reason = profiler.CloseStale
	}
	repeats, _ := again()
	switch {
	case !repeats || s != nil && !c.inTx && s.pinned():
		return false
	case s != nil && c.inTx:
		op.Skip(false)
	default:
		op.Skip(true)
	}
	return true
}

// failed notes what an error may say about a later close.
func (c *sqlConn) failed(op *profiler.Op, err error) { c.outcome, c.err = op.Outcome(), err }

// invalid says that the connection was found unfit when it came back.
func (c *sqlConn) invalid() {
	switch {
	case c.reason != profiler.CloseUnknown:
	case c.err != nil && (c.outcome == profiler.Canceled || c.outcome == profiler.Timeout):
		c.reason = profiler.CloseCanceled
	default:
		c.reason = profiler.CloseError
	}
}

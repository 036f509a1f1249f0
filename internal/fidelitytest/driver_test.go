//lint:file-ignore SA1019 drivers still have these interfaces, and database/sql still asks for them

package fidelitytest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
)

// fake is a driver that notes what is called on it, with the arguments, and fails by a plan that only the order of the calls decides: as long
// as the calls are the same bare and wrapped, so are the failures.
type fake struct {
	conn func(*conn) driver.Conn
	stmt func(*stmt) driver.Stmt
	rows func(*rows) driver.Rows

	mu     sync.Mutex
	plan   *rand.Rand // mu; nil: nothing fails
	log    []string   // mu
	made   int        // mu
	cancel func()     // mu: ends the context of the call that runs, nil where it must not
	panics string     // mu: the next call whose note has this in it panics, and no other; "": none
}

var (
	errBoom    = errors.New("boom")
	errBadToo  = fmt.Errorf("in other words: %w", driver.ErrBadConn)
	errCustom  = &customError{}
	errPanic   = errors.New("the driver panicked")
	mayFail    = []error{errBoom, errBoom, errCustom, driver.ErrBadConn, errBadToo, driver.ErrSkip, context.Canceled}
	mayDecline = []error{errBoom, driver.ErrSkip, driver.ErrSkip, driver.ErrRemoveArgument}
)

type customError struct{}

func (*customError) Error() string   { return "custom" }
func (*customError) Is(e error) bool { return e == driver.ErrSkip } // an error that only claims to be another

// called notes a call and says how it ends.
func (f *fake) called(of []error, format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	note := fmt.Sprintf(format, args...)
	f.log = append(f.log, note)
	if f.panics != "" && strings.Contains(note, f.panics) {
		f.panics = ""
		panic(errPanic)
	}
	if f.plan == nil || f.plan.IntN(8) != 0 {
		return nil
	}
	if f.cancel != nil && f.plan.IntN(3) == 0 {
		f.cancel()
		return nil
	}
	return of[f.plan.IntN(len(of))]
}

func (f *fake) Driver() driver.Driver { return driverOf{f} }

type driverOf struct{ f *fake }

func (driverOf) Open(string) (driver.Conn, error) { return nil, errBoom }

func (f *fake) Connect(ctx context.Context) (driver.Conn, error) {
	if err := f.called(mayFail, "connect %v", ctx.Value(key{})); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.made++
	c := &conn{f: f, id: f.made}
	f.mu.Unlock()
	return f.conn(c), nil
}

// closing is a Connector that can be closed.
type closing struct{ *fake }

func (c closing) Close() error { return c.called([]error{errBoom}, "close connector") }

type key struct{}

// conn is what every driver must have; the rest comes in parts.
type conn struct {
	f  *fake
	id int
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.prepared(query, c.f.called(mayFail, "%d prepare %q", c.id, query))
}
func (c *conn) Close() error { return c.f.called([]error{errBoom}, "%d close", c.id) }
func (c *conn) Begin() (driver.Tx, error) {
	return c.begun(c.f.called(mayFail, "%d begin", c.id))
}

func (c *conn) prepared(query string, err error) (driver.Stmt, error) {
	if err != nil {
		return nil, err
	}
	return c.f.stmt(&stmt{c, query}), nil
}

func (c *conn) begun(err error) (driver.Tx, error) {
	if err != nil {
		return nil, err
	}
	return tx{c}, nil
}

func (c *conn) result(query string, err error) (driver.Result, error) {
	if err != nil {
		return nil, err
	}
	return &result{c, int64(len(query))}, nil
}

func (c *conn) answer(query string, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	return c.f.rows(&rows{c: c, left: 2, sets: 1}), nil
}

type (
	connPing    struct{ c *conn }
	connExec    struct{ c *conn }
	connQuery   struct{ c *conn }
	connExecOld struct{ c *conn }
	connQryOld  struct{ c *conn }
	connPrepare struct{ c *conn }
	connBegin   struct{ c *conn }
	connReset   struct{ c *conn }
	connValid   struct{ c *conn }
	connCheck   struct{ c *conn }
)

func (p connPing) Ping(ctx context.Context) error {
	return p.c.f.called(mayFail, "%d ping %v", p.c.id, ctx.Value(key{}))
}

func (p connExec) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return p.c.result(query, orDone(ctx, p.c.f.called(mayFail, "%d exec %q %v %v", p.c.id, query, show(args), ctx.Value(key{}))))
}

func (p connQuery) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return p.c.answer(query, orDone(ctx, p.c.f.called(mayFail, "%d query %q %v %v", p.c.id, query, show(args), ctx.Value(key{}))))
}

func (p connExecOld) Exec(query string, args []driver.Value) (driver.Result, error) {
	return p.c.result(query, p.c.f.called(mayFail, "%d old exec %q %v", p.c.id, query, show(args)))
}

func (p connQryOld) Query(query string, args []driver.Value) (driver.Rows, error) {
	return p.c.answer(query, p.c.f.called(mayFail, "%d old query %q %v", p.c.id, query, show(args)))
}

func (p connPrepare) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return p.c.prepared(query, orDone(ctx, p.c.f.called(mayFail, "%d prepare %q %v", p.c.id, query, ctx.Value(key{}))))
}

func (p connBegin) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return p.c.begun(orDone(ctx, p.c.f.called(mayFail, "%d begin %+v %v", p.c.id, opts, ctx.Value(key{}))))
}

func (p connReset) ResetSession(ctx context.Context) error {
	return p.c.f.called(mayFail, "%d reset %v", p.c.id, ctx.Value(key{}))
}

func (p connValid) IsValid() bool { return p.c.f.called(mayFail, "%d valid", p.c.id) == nil }

func (p connCheck) CheckNamedValue(v *driver.NamedValue) error {
	return check(v, "connection", p.c.f.called(mayDecline, "%d check %v", p.c.id, show([]driver.NamedValue{*v})))
}

// orDone is what a driver with contexts answers.
func orDone(ctx context.Context, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// custom is an argument that only a driver knows what to do with.
type custom struct{ s string }

func check(v *driver.NamedValue, by string, err error) error {
	if err != nil {
		return err
	}
	if c, ok := v.Value.(custom); ok {
		v.Value = by + " took " + c.s
	}
	return nil
}

type stmt struct {
	c     *conn
	query string
}

func (s *stmt) Close() error { return s.c.f.called([]error{errBoom}, "%d close %q", s.c.id, s.query) }

// NumInput counts the placeholders, but for queries that begin with a blank it doesn't know.
func (s *stmt) NumInput() int {
	if strings.HasPrefix(s.query, " ") {
		return -1
	}
	return strings.Count(s.query, "?")
}

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.c.result(s.query, s.c.f.called(mayFail, "%d old exec of %q %v", s.c.id, s.query, show(args)))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.c.answer(s.query, s.c.f.called(mayFail, "%d old query of %q %v", s.c.id, s.query, show(args)))
}

type (
	stmtExec    struct{ s *stmt }
	stmtQuery   struct{ s *stmt }
	stmtCheck   struct{ s *stmt }
	stmtConvert struct{ s *stmt }
)

func (p stmtExec) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	c := p.s.c
	return c.result(p.s.query, orDone(ctx, c.f.called(mayFail, "%d exec of %q %v %v", c.id, p.s.query, show(args), ctx.Value(key{}))))
}

func (p stmtQuery) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	c := p.s.c
	return c.answer(p.s.query, orDone(ctx, c.f.called(mayFail, "%d query of %q %v %v", c.id, p.s.query, show(args), ctx.Value(key{}))))
}

func (p stmtCheck) CheckNamedValue(v *driver.NamedValue) error {
	return check(v, "statement", p.s.c.f.called(mayDecline, "%d check of %q %v", p.s.c.id, p.s.query, show([]driver.NamedValue{*v})))
}

func (p stmtConvert) ColumnConverter(i int) driver.ValueConverter {
	p.s.c.f.called(mayFail, "%d converter %d of %q", p.s.c.id, i, p.s.query)
	return converter{}
}

type converter struct{}

func (converter) ConvertValue(v any) (driver.Value, error) {
	if c, ok := v.(custom); ok {
		return "column took " + c.s, nil
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

type tx struct{ c *conn }

func (t tx) Commit() error   { return t.c.f.called(mayFail, "%d commit", t.c.id) }
func (t tx) Rollback() error { return t.c.f.called(mayFail, "%d rollback", t.c.id) }

type result struct {
	c *conn
	n int64
}

func (r *result) LastInsertId() (int64, error) {
	return r.n, r.c.f.called([]error{errBoom}, "%d last id", r.c.id)
}
func (r *result) RowsAffected() (int64, error) {
	return r.n + 1, r.c.f.called([]error{errBoom}, "%d affected", r.c.id)
}

type rows struct {
	c          *conn
	left, sets int
}

func (r *rows) Columns() []string { return []string{"a", "b"} }
func (r *rows) Close() error      { return r.c.f.called([]error{errBoom}, "%d close rows", r.c.id) }
func (r *rows) Next(dest []driver.Value) error {
	if err := r.c.f.called([]error{errBoom, driver.ErrBadConn, errCustom}, "%d next", r.c.id); err != nil {
		return err
	}
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	dest[0], dest[1] = int64(r.left), "s"
	return nil
}

type (
	rowsSets      struct{ r *rows }
	rowsScanType  struct{ r *rows }
	rowsTypeName  struct{ r *rows }
	rowsLength    struct{ r *rows }
	rowsNullable  struct{ r *rows }
	rowsPrecision struct{ r *rows }
)

func (p rowsSets) HasNextResultSet() bool { return p.r.sets > 0 }
func (p rowsSets) NextResultSet() error {
	if err := p.r.c.f.called([]error{errBoom, io.EOF}, "%d next set", p.r.c.id); err != nil {
		return err
	}
	p.r.sets--
	p.r.left = 1
	return nil
}
func (p rowsScanType) ColumnTypeScanType(i int) reflect.Type {
	return []reflect.Type{reflect.TypeFor[int64](), reflect.TypeFor[string]()}[i]
}
func (p rowsTypeName) ColumnTypeDatabaseTypeName(i int) string { return fmt.Sprint("TYPE", i) }
func (p rowsLength) ColumnTypeLength(i int) (int64, bool)      { return int64(i), i > 0 }
func (p rowsNullable) ColumnTypeNullable(i int) (bool, bool)   { return i > 0, true }
func (p rowsPrecision) ColumnTypePrecisionScale(i int) (int64, int64, bool) {
	return 10, int64(i), i > 0
}

// show tells arguments with their types.
func show[V driver.Value | driver.NamedValue](args []V) string {
	var s []string
	for _, a := range args {
		s = append(s, fmt.Sprintf("%#v", a))
	}
	return "(" + strings.Join(s, ", ") + ")"
}

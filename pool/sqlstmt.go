//lint:file-ignore SA1019 database/sql still asks drivers for these interfaces, and so must a wrapper

package pool

import (
	"context"
	"database/sql/driver"
	"errors"
	"runtime"

	"github.com/connprof/connprof/profiler"
)

// stmt wraps driver.Stmt. StmtExecContext and StmtQueryContext are always there, as database/sql itself would do without them; so is
// NamedValueChecker, which shadows the connection's and therefore asks statement, then connection, then leaves it to database/sql.
// ColumnConverter is there exactly if the driver has it.
type stmt struct {
	inner driver.Stmt
	conn  *sqlConn
	query string
	// since is the entry of the query that this statement was prepared for and that runs on it once; zero for one that the caller prepared.
	since profiler.Instant
	own   bool // the caller prepared it
	ran   int
	// preparer is where a statement of the caller's was prepared.
	preparer [12]uintptr
}

// stmtWithConverter embeds no driver.ColumnConverter: the field's name would hide the method's.
type stmtWithConverter struct {
	*stmt
	converter driver.ColumnConverter
}

var _ driver.ColumnConverter = stmtWithConverter{}

func (s stmtWithConverter) ColumnConverter(i int) driver.ValueConverter {
	return s.converter.ColumnConverter(i)
}

func wrapStmt(s driver.Stmt, c *sqlConn, query string, since profiler.Instant) *stmt {
	return &stmt{inner: s, conn: c, query: query, since: since, own: !since.Known()}
}

// exact is s with the interfaces of the driver's statement that are not neutral.
func (s *stmt) exact() driver.Stmt {
	if cc, ok := s.inner.(driver.ColumnConverter); ok {
		return stmtWithConverter{s, cc}
	}
	return s
}

// pinned reports whether a sql.Conn prepared the statement, which then runs on that connection only.
func (s *stmt) pinned() bool {
	frames := runtime.CallersFrames(s.preparer[:])
	for {
		f, more := frames.Next()
		if f.Function == "database/sql.(*Conn).PrepareContext" {
			return true
		}
		if !more {
			return false
		}
	}
}

func (s *stmt) Close() error {
	if s.own {
		s.own = false
		s.conn.of.StatementClosed(s.ran)
	}
	if s.since.Known() { // it never ran
		s.conn.wire.abandoned()
	}
	return s.inner.Close()
}

func (s *stmt) NumInput() int { return s.inner.NumInput() }

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), named(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), named(args))
}

// start is when the operation began: with the query that the driver declined, if this statement was prepared for it.
func (s *stmt) start() (at profiler.Instant, how profiler.Prepared) {
	s.ran++
	if at = s.since; at.Known() {
		s.since = 0
		return at, profiler.PreparedOnce
	}
	return profiler.Now(), profiler.PreparedBefore
}

// prepared completes the operation's facts.
func (s *stmt) prepared(op *profiler.Op, how profiler.Prepared) {
	op.Prepared = how
	if how == profiler.PreparedOnce {
		s.conn.took(op, 2)
	} else {
		s.conn.took(op, 1)
	}
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	at, how := s.start()
	var op profiler.Op
	s.conn.begin(ctx, &op, profiler.OpExec, at, s.query, how == profiler.PreparedOnce)
	s.prepared(&op, how)
	var r driver.Result
	var err error
	if e, ok := s.inner.(driver.StmtExecContext); ok {
		r, err = e.ExecContext(ctx, args)
	} else if vs, verr := values(ctx, args); verr != nil {
		err = verr
	} else {
		r, err = s.inner.Exec(vs)
	}
	s.conn.endOf(ctx, &op, err, s)
	return r, err
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	at, how := s.start()
	w := s.conn.beginQuery(ctx, at, s.query, how == profiler.PreparedOnce)
	s.prepared(&w.op, how)
	var r driver.Rows
	var err error
	if q, ok := s.inner.(driver.StmtQueryContext); ok {
		r, err = q.QueryContext(ctx, args)
	} else if vs, verr := values(ctx, args); verr != nil {
		err = verr
	} else {
		r, err = s.inner.Query(vs)
	}
	if err != nil {
		s.conn.endOf(ctx, &w.op, err, s)
		return r, err
	}
	return s.conn.answered(ctx, w, r), nil
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := s.inner.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// tx reports Commit and Rollback as operations under BeginTx's context.
type tx struct {
	inner driver.Tx
	conn  *sqlConn
	ctx   context.Context
}

func (t *tx) Commit() error {
	var op profiler.Op
	t.conn.begin(t.ctx, &op, profiler.OpCommit, profiler.Now(), "", false)
	err := t.inner.Commit()
	t.conn.inTx = false
	t.conn.took(&op, 1)
	t.conn.end(t.ctx, &op, err)
	return err
}

func (t *tx) Rollback() error {
	var op profiler.Op
	t.conn.begin(t.ctx, &op, profiler.OpRollback, profiler.Now(), "", false)
	err := t.inner.Rollback()
	t.conn.inTx = false
	t.conn.took(&op, 1)
	t.conn.end(t.ctx, &op, err)
	return err
}

// execOld and queryOld do for a driver with the interfaces of Go 1.7 what database/sql does (ctxutil.go).
func execOld(ctx context.Context, e driver.Execer, query string, args []driver.NamedValue) (driver.Result, error) {
	vs, err := values(ctx, args)
	if err != nil {
		return nil, err
	}
	return e.Exec(query, vs)
}

func queryOld(ctx context.Context, q driver.Queryer, query string, args []driver.NamedValue) (driver.Rows, error) {
	vs, err := values(ctx, args)
	if err != nil {
		return nil, err
	}
	return q.Query(query, vs)
}

// values is what a driver without contexts gets: no names, and nothing once the context has ended.
func values(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	vs := make([]driver.Value, len(args))
	for i, a := range args {
		if len(a.Name) > 0 {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		vs[i] = a.Value
	}
	return vs, ctx.Err()
}

func named(args []driver.Value) []driver.NamedValue {
	ns := make([]driver.NamedValue, len(args))
	for i, a := range args {
		ns[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return ns
}

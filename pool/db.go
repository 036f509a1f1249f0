package pool

import (
	"context"
	"database/sql"

	"github.com/connprof/connprof/profiler"
)

// DB is a *sql.DB that stamps each call with the moment it was made, so that the wait for a connection is known for every operation. All
// other methods are those of the *sql.DB.
//
// The operations of a *sql.Tx and a *sql.Conn wait for no connection: theirs is the wait of the BeginTx or Conn call, which the first of
// them carries. A *sql.Stmt's own calls are not stamped, and their wait is unknown, unless their context comes from profiler.Asked.
//
// A plain *sql.DB tells less: its operations have no wait and no attempts. The pool's total wait is in sql.DBStats (to within 5 µs a wait,
// and without creates that a caller made itself), and so in reports; dead connections are counted, with the time they had been idle, but
// nothing says which operation met them, and callers who give up waiting leave no trace.
//
// How many callers wait is known where metrics are collected (profiler.EndpointReport.Waiting), and a caller who gives up before it has a connection is counted as a wait
// that failed, and reported (profiler.KindWaitFailed): both once some call through the DB has met a connection, which tells whose they are.
type DB struct {
	*sql.DB
	asker profiler.Asker
}

// Wrap wraps db, whose connections come from a Connector. It costs a reading of the clock and an allocation a call. Wrap one DB once,
// and share the result: it knows of its own callers only.
func Wrap(db *sql.DB) *DB { return &DB{DB: db} }

// Query is sql.DB.Query, stamped.
func (d *DB) Query(query string, args ...any) (*sql.Rows, error) {
	return d.QueryContext(context.Background(), query, args...)
}

// QueryContext is sql.DB.QueryContext, stamped.
func (d *DB) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	ctx = d.asker.Asked(ctx)
	defer func() { d.asker.Ended(ctx, err) }() // a driver may panic
	return d.DB.QueryContext(ctx, query, args...)
}

// QueryRow is sql.DB.QueryRow, stamped.
func (d *DB) QueryRow(query string, args ...any) *sql.Row {
	return d.QueryRowContext(context.Background(), query, args...)
}

// QueryRowContext is sql.DB.QueryRowContext, stamped.
func (d *DB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx = d.asker.Asked(ctx)
	var err error
	defer func() { d.asker.Ended(ctx, err) }()
	row := d.DB.QueryRowContext(ctx, query, args...)
	err = row.Err()
	return row
}

// Exec is sql.DB.Exec, stamped.
func (d *DB) Exec(query string, args ...any) (sql.Result, error) {
	return d.ExecContext(context.Background(), query, args...)
}

// ExecContext is sql.DB.ExecContext, stamped.
func (d *DB) ExecContext(ctx context.Context, query string, args ...any) (r sql.Result, err error) {
	ctx = d.asker.Asked(ctx)
	defer func() { d.asker.Ended(ctx, err) }()
	return d.DB.ExecContext(ctx, query, args...)
}

// Prepare is sql.DB.Prepare, stamped.
func (d *DB) Prepare(query string) (*sql.Stmt, error) {
	return d.PrepareContext(context.Background(), query)
}

// PrepareContext is sql.DB.PrepareContext, stamped.
func (d *DB) PrepareContext(ctx context.Context, query string) (s *sql.Stmt, err error) {
	ctx = d.asker.Asked(ctx)
	defer func() { d.asker.Ended(ctx, err) }()
	return d.DB.PrepareContext(ctx, query)
}

// Begin is sql.DB.Begin, stamped.
func (d *DB) Begin() (*sql.Tx, error) {
	return d.BeginTx(context.Background(), nil)
}

// BeginTx is sql.DB.BeginTx, stamped.
func (d *DB) BeginTx(ctx context.Context, opts *sql.TxOptions) (tx *sql.Tx, err error) {
	ctx = d.asker.Asked(ctx)
	defer func() { d.asker.Ended(ctx, err) }()
	return d.DB.BeginTx(ctx, opts)
}

// Conn is sql.DB.Conn, stamped.
func (d *DB) Conn(ctx context.Context) (c *sql.Conn, err error) {
	ctx = d.asker.Asked(ctx)
	defer func() { d.asker.Ended(ctx, err) }()
	return d.DB.Conn(ctx)
}

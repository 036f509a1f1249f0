package pool

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"

	"github.com/connprof/connprof/profiler"
)

// rows wraps driver.Rows to see its end. Every optional interface has a neutral answer, database/sql's own default, so that one type serves
// all drivers (sql.go, rowsColumnInfoSetupConnLocked and NextResultSet).
type rows struct {
	driver.Rows
	conn *sqlConn
	ctx  context.Context
	op   profiler.Op
	pace pace
	// responded is when the first response came.
	responded profiler.Instant
	err       error
	slot      bool
	read      bool // a row was asked for
}

var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

// beginQuery begins an operation that will have rows.
func (c *sqlConn) beginQuery(ctx context.Context, at profiler.Instant, text string, goesOn bool) *rows {
	c.declined = 0
	// One checkout's first query uses the slot. Later ones (of a transaction or a pinned connection) may outlive each other: the pointer
	// carries no generation, so they get their own.
	w := &c.slot
	if c.busy || c.ops != 0 {
		w = new(rows)
	}
	marked := ctx
	if c.plain != nil {
		marked = c.markedBy(ctx)
	}
	c.of.BeginIn(&w.op, marked, profiler.OpQuery, at)
	w.op.Text = text
	if c.wire.meter != nil {
		c.wire.begin(ctx, &w.op, goesOn)
	}
	return w
}

// answered takes the rows that the driver gave for the query that w began: its return is the first response.
func (c *sqlConn) answered(ctx context.Context, w *rows, r driver.Rows) driver.Rows {
	at := profiler.Now()
	if w.op.Metered {
		c.wire.responded(&w.op, nil)
	}
	w.op.Responded(ctx, at, nil)
	c.ops++
	if w == &c.slot {
		c.busy, w.slot = true, true
	}
	w.Rows, w.conn, w.ctx, w.err = r, c, ctx, nil
	w.responded, w.read = at, false
	return w.exact()
}

func (r *rows) Next(dest []driver.Value) error {
	entry := r.entry()
	err := r.Rows.Next(dest)
	r.came(entry, err)
	return err
}

// entry is the beginning of a call for rows, zero if it is not to be timed.
func (r *rows) entry() profiler.Instant {
	if !r.read {
		r.read = true
		r.pace = pace{last: r.responded, shown: r.responded}
	}
	return r.pace.next()
}

// came notes the end of such a call.
func (r *rows) came(entry profiler.Instant, err error) {
	if at := r.pace.came(entry); at.Sub(r.pace.shown) > showEvery {
		r.pace.shown = at
		r.op.Progress(at)
	}
	if err != nil {
		r.pace.ended = true
		if err != io.EOF {
			r.err = err
		}
	}
}

func (r *rows) Close() error {
	var entry profiler.Instant
	if r.read {
		if entry = r.pace.last; !r.pace.ended || r.pace.skip > 0 {
			entry = profiler.Now()
		}
	}
	err := r.Rows.Close()
	result := r.err
	if result == nil {
		result = err
	}
	end := profiler.Now()
	if r.read {
		r.op.Driver, r.op.Consumer = r.pace.end(r.responded, entry, end)
		r.read = false
	}
	if r.op.Metered {
		r.conn.wire.passed(&r.op, result)
		r.conn.wire.end(&r.op)
	}
	r.op.End(r.ctx, end, result)
	if result != nil {
		r.conn.failed(&r.op, result)
	}
	if r.slot { // free it, and don't keep the caller's context and the driver's rows alive
		r.slot = false
		c := r.conn
		c.slot.Rows, c.slot.ctx = closedRows{}, nil
		c.busy = false
	}
	return err
}

func (r *rows) HasNextResultSet() bool {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return n.HasNextResultSet()
	}
	return false
}

func (r *rows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok {
		entry := r.entry()
		err := n.NextResultSet()
		r.came(entry, err)
		return err
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// closedRows stands in a free slot: what is asked of rows after their Close has an answer.
type closedRows struct{}

func (closedRows) Columns() []string         { return nil }
func (closedRows) Close() error              { return nil }
func (closedRows) Next([]driver.Value) error { return io.EOF }

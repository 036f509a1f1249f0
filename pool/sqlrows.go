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
	err  error
	slot bool
}

var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

// rowsOf takes the driver's answer to a query: its return is the first response.
func (c *sqlConn) rowsOf(ctx context.Context, op *profiler.Op, r driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		c.end(ctx, op, err)
		return r, err
	}
	op.Responded(ctx, profiler.Now(), nil)
	c.ops++
	// One checkout's first query uses the slot. Later ones (of a transaction or a pinned connection) may outlive each other: the pointer
	// carries no generation, so they get their own.
	w := &c.slot
	if c.busy || c.ops != 1 {
		w = new(rows)
	} else {
		c.busy = true
		w.slot = true
	}
	w.Rows, w.conn, w.ctx, w.op, w.err = r, c, ctx, *op, nil
	return w, nil
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return err
}

func (r *rows) Close() error {
	err := r.Rows.Close()
	result := r.err
	if result == nil {
		result = err
	}
	r.op.End(r.ctx, profiler.Now(), result)
	if result != nil {
		r.conn.err = result
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
		err := n.NextResultSet()
		if err != nil && err != io.EOF {
			r.err = err
		}
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

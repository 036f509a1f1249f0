//go:build go1.27

package pool

import "database/sql/driver"

// scanningRows is rows of a driver that scans columns itself (driver.RowsColumnScanner, since Go 1.27). database/sql then asks for rows with
// NextRow instead of Next, so that the interface must be there exactly when the driver has it.
type scanningRows struct {
	*rows
	scanner driver.RowsColumnScanner
}

var _ driver.RowsColumnScanner = (*scanningRows)(nil)

func (r *scanningRows) NextRow() error {
	entry := r.entry()
	err := r.scanner.NextRow()
	r.came(entry, err)
	return err
}

func (r *scanningRows) ScanColumn(ctx driver.ScanContext, index int, dest any) error {
	return r.scanner.ScanColumn(ctx, index, dest)
}

// exact is w with the interfaces of the driver's rows that are not neutral.
func (w *rows) exact() driver.Rows {
	if s, ok := w.Rows.(driver.RowsColumnScanner); ok {
		return &scanningRows{w, s}
	}
	return w
}

//go:build !go1.27

package pool

import "database/sql/driver"

// exact is w with the interfaces of the driver's rows that are not neutral: before Go 1.27 there are none.
func (w *rows) exact() driver.Rows { return w }

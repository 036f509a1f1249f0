//go:build go1.27

package pool

import (
	"database/sql/driver"
	"io"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// scannerRows scan their one column themselves.
type scannerRows struct {
	fakeRows
	scanned int
}

func (r *scannerRows) NextRow() error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	return nil
}

func (r *scannerRows) ScanColumn(_ driver.ScanContext, _ int, dest any) error {
	r.scanned++
	*dest.(*string) = "from the driver"
	return nil
}

func TestRowsThatScanThemselvesStillDo(t *testing.T) {
	for _, scans := range []bool{true, false} {
		own := &scannerRows{fakeRows: fakeRows{left: 3}}
		var inner driver.Rows = own
		if !scans {
			inner = &own.fakeRows
		}
		f := &fake{has: everything, rows: func(string) (driver.Rows, error) { return inner, nil }}
		p := new(profiler.Profiler)
		rows, err := openFake(t, p, f).Query("q")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; rows.Next(); n++ {
			var s string
			if err := rows.Scan(&s); err != nil || scans != (s == "from the driver") {
				t.Errorf("scans itself %t: got %q, %v", scans, s, err)
			}
		}
		if err := rows.Close(); err != nil || n != 3 || scans != (own.scanned == 3) {
			t.Errorf("scans itself %t: %d rows, %d scanned, %v", scans, n, own.scanned, err)
		}
		if e := pooled(p); e.Measure(profiler.MeasureRows, profiler.OK) == nil || e.RowsDriver+e.RowsConsumer == 0 {
			t.Errorf("scans itself %t: the rows were not timed", scans)
		}
	}
}

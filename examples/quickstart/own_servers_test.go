package main

import (
	"fmt"
	"testing"

	"github.com/connprof/connprof/examples/internal/embedded"
)

// Servers of the user's own give one row each, with the TLS that their addresses ask for, also over the emulated network.
func TestServersOfTheUsersOwn(t *testing.T) {
	sql, err := embedded.StartMySQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sql.Close()
	documents, err := embedded.StartMongo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer documents.Close()
	dsn := fmt.Sprintf("%s:%s@tcp(%s)/%s?tls=preferred", embedded.NativeUser, embedded.SQLPassword, sql.Addr, embedded.Database)
	for _, rtt := range []string{"0s", "5ms"} {
		report := measureJSON(t, "-iterations", "5", "-rtt", rtt, "-mysql", dsn, "-mongo", documents.URI(true))
		if len(report.Rows) != 2 {
			t.Fatalf("rtt %s: %d rows, want 2", rtt, len(report.Rows))
		}
		for i, system := range []string{"mysql", "mongodb"} {
			row := report.Rows[i]
			if row.System != system || !row.TLS || row.Connections != 5 || row.Prepared != nil {
				t.Errorf("rtt %s: row %d is %+v", rtt, i, row)
			}
			checkPhases(t, row)
		}
		// A query with an argument is prepared first unless the DSN says otherwise: two round trips.
		if rtt != "0s" && report.Rows[0].Reused.P50 < 10 {
			t.Errorf("a prepared query takes %v ms at 5 ms a round trip", report.Rows[0].Reused.P50)
		}
	}
}

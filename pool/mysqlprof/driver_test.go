package mysqlprof

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

var registered = new(profiler.Profiler)

func init() {
	sql.Register("mysqlprof-test", Driver(registered))
	sql.Register("mysqlprof-test-off", Driver(nil))
}

// A driver that is registered with database/sql gives what the one it stands for gives: the same results, errors and types.
func TestARegisteredDriverGivesWhatTheDriversOwnGives(t *testing.T) {
	s := mariadbtest.Start(t)
	name := dsn(t, s, true, false, "interpolateParams=true")
	wrong := s.DSN("nobody", "wrong", "")
	program := func(driverName string) (saw []string) {
		note := func(v ...any) { saw = append(saw, fmt.Sprintf("%T %v", v[len(v)-1], v)) }
		_, err := sql.Open(driverName, "no data source name")
		note("a bad name", err)
		bad, err := sql.Open(driverName, wrong)
		note("opening says nothing of the password", err)
		defer bad.Close()
		err = bad.PingContext(t.Context())
		var refused *mysql.MySQLError
		note(errors.As(err, &refused), err)

		db, err := sql.Open(driverName, name)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		note(db.Driver())
		var n int
		note(db.QueryRowContext(t.Context(), "SELECT ? + 1", 41).Scan(&n), n)
		_, err = db.ExecContext(t.Context(), "no statement")
		note(err)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = db.QueryContext(canceled, "SELECT 1")
		note(err == context.Canceled, err)
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		note(c.Raw(func(dc any) error {
			note(fmt.Sprintf("%T", pool.Unwrap(dc)))
			_, ok := dc.(driver.Pinger)
			note("pings", ok)
			_, ok = dc.(driver.NamedValueChecker)
			note("checks", ok)
			return nil
		}))
		return saw
	}
	bare, got := program("mysql"), program("mysqlprof-test")
	if !slices.Equal(bare, got) {
		t.Errorf("bare    %q\nwrapped %q", bare, got)
	}
	if off := program("mysqlprof-test-off"); !slices.Equal(bare, off) {
		t.Errorf("bare %q\noff  %q", bare, off)
	}
	e := registered.Report().Endpoint(s.Addr, profiler.RolePool)
	if first, _ := e.Queries(); e.Created == 0 || first == 0 || e.Failed == 0 || e.TLS.Handshakes != e.Created {
		t.Errorf("the registered driver's connections were not profiled: %+v", e)
	}

	d := Driver(new(profiler.Profiler)) // a driver.Driver that is used without database/sql
	if _, err := d.Open("no data source name"); err == nil {
		t.Error("a bad name is no error")
	}
	c, err := d.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(driver.Pinger).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

package embedded_test

import (
	"context"
	cryptotls "crypto/tls"
	"database/sql"
	"errors"
	"io"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startMySQL(t *testing.T) *embedded.MySQL {
	t.Helper()
	start := time.Now()
	server, err := embedded.StartMySQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(start))
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// openMySQL returns a pool that the test closes before the server.
func openMySQL(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMySQLAnswersWithTLSOffAndOn(t *testing.T) {
	server := startMySQL(t)
	for name, tls := range map[string]bool{"TLS off": false, "TLS on": true} {
		t.Run(name, func(t *testing.T) {
			var verified atomic.Int32
			config := server.Config(tls)
			if tls {
				config.TLS.VerifyConnection = func(cryptotls.ConnectionState) error { verified.Add(1); return nil }
			}
			db := openMySQL(t, config)
			var field string
			err := db.QueryRowContext(t.Context(), "SELECT field0 FROM usertable WHERE _id = ?", embedded.Key(7)).Scan(&field)
			if err != nil || len(field) != 100 {
				t.Errorf("row 7: %q, %v", field, err)
			}
			err = db.QueryRowContext(t.Context(), "SELECT field0 FROM usertable WHERE _id = 'nobody'").Scan(&field)
			if !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("a key that does not exist: %v", err)
			}
			var rows int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM usertable").Scan(&rows); err != nil || rows != embedded.Rows {
				t.Errorf("%d rows, %v", rows, err)
			}
			rows = 0
			query := "SELECT COUNT(*) FROM usertable WHERE _id IN (?, ?, 'nobody') OR _id >= ?"
			err = db.QueryRowContext(t.Context(), query, embedded.Key(1), embedded.Key(2), embedded.Key(990)).Scan(&rows)
			if err != nil || rows != 12 {
				t.Errorf("several keys: %d rows, %v; want 12", rows, err)
			}
			var last string
			err = db.QueryRowContext(t.Context(), "SELECT _id FROM usertable ORDER BY _id DESC LIMIT 1").Scan(&last)
			if err != nil || last != embedded.Key(embedded.Rows-1) {
				t.Errorf("last row: %q, %v", last, err)
			}
			if handshakes := verified.Load(); (handshakes > 0) != tls {
				t.Errorf("%d TLS handshakes", handshakes)
			}
		})
	}
}

func TestMySQLAccounts(t *testing.T) {
	server := startMySQL(t)
	tests := []struct {
		name, user, password string
		tls                  bool
		number               uint16 // of the MySQL error, 0 for none
	}{
		{"native logs in without TLS", embedded.NativeUser, embedded.SQLPassword, false, 0},
		{"native logs in with TLS", embedded.NativeUser, embedded.SQLPassword, true, 0},
		{"sha2 logs in with TLS", embedded.SHA2User, embedded.SQLPassword, true, 0},
		{"a wrong password is refused", embedded.NativeUser, "wrong", false, 1045},
		{"root is gone", "root", "", false, 2012},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config := server.Config(test.tls)
			config.User, config.Passwd = test.user, test.password
			config.Logger = log.New(io.Discard, "", 0)
			err := openMySQL(t, config).PingContext(t.Context())
			var refused *mysql.MySQLError
			switch {
			case test.number == 0 && err != nil:
				t.Error(err)
			case test.number != 0 && (!errors.As(err, &refused) || refused.Number != test.number):
				t.Errorf("error %v, want number %d", err, test.number)
			}
		})
	}
}

func TestMySQLIsNotTrustedWithoutItsAuthority(t *testing.T) {
	config := startMySQL(t).Config(true)
	config.TLS.RootCAs = nil
	if err := openMySQL(t, config).PingContext(t.Context()); err == nil {
		t.Error("the server's certificate was accepted")
	}
}

func TestMySQLCloseCutsOpenConnections(t *testing.T) {
	server := startMySQL(t)
	config := server.Config(true)
	config.Logger = log.New(io.Discard, "", 0)
	db := openMySQL(t, config)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	start := time.Now()
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("Close took %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := c.PingContext(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("ping after the server's Close: %v", err)
	}
}

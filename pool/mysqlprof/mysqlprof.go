package mysqlprof

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// Open is sql.Open("mysql", dsn) with connections that are profiled, and the pool's counters in reports until the DB is closed. Like
// sql.Open it does not connect; unlike it, it reports a DSN that can't be parsed or used at once. A nil p profiles nothing.
func Open(p *profiler.Profiler, dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("mysqlprof: DSN: %w", err)
	}
	return OpenConfig(p, cfg)
}

// OpenConfig is Open for a Config, which is copied.
func OpenConfig(p *profiler.Profiler, cfg *mysql.Config) (*sql.DB, error) {
	c, err := Connector(p, cfg)
	if err != nil {
		return nil, err
	}
	return pool.OpenDB(p, c), nil
}

// Connector is mysql.NewConnector(cfg) with connections that are profiled: a *pool.Connector, for sql.OpenDB, pool.OpenDB, or to set its
// KeepConn. cfg is copied; its DialFunc, if any, does the dialing as before. A nil p returns the driver's own Connector.
func Connector(p *profiler.Profiler, cfg *mysql.Config) (driver.Connector, error) {
	if p == nil {
		return newConnector(cfg)
	}
	cfg = cfg.Clone()
	d := handshake.Dialer{
		Profiler: p, Endpoint: endpoint(cfg),
		Hook: hooked(cfg), SetupTurns: setupTurns(cfg), LoginError: loginError,
	}
	switch {
	case cfg.DialFunc != nil:
		d.DialFunc = keepAlive(cfg.DialFunc)
		cfg.DialFunc = d.DialContext
	case plain(cfg.Net) || cfg.Net == "":
		cfg.DialFunc = onlyPlain(d)
	}
	c, err := newConnector(cfg)
	if err != nil {
		return nil, err
	}
	return &pool.Connector{Connector: c, Profiler: p, Endpoint: d.Endpoint, TurnPerCall: true}, nil
}

func newConnector(cfg *mysql.Config) (driver.Connector, error) {
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("mysqlprof: config: %w", err)
	}
	return c, nil
}

// Driver is a driver for sql.Register whose connections are profiled, for programs that must open by name. Unlike Open it does not include
// the pool's counters in reports: pool.WatchDB does.
func Driver(p *profiler.Profiler) driver.Driver { return profiled{p: p} }

type profiled struct {
	mysql.MySQLDriver
	p *profiler.Profiler
}

var _ driver.DriverContext = profiled{}

func (d profiled) OpenConnector(dsn string) (driver.Connector, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	return Connector(d.p, cfg)
}

func (d profiled) Open(dsn string) (driver.Conn, error) {
	c, err := d.OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

// plain reports whether a network is one that net.Dialer dials; any other must be registered with the driver.
func plain(network string) bool {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
		return true
	}
	return false
}

// onlyPlain dials with d, and refuses a registered network that BeforeConnect chose: the driver keeps its dialers to itself once a DialFunc
// is set.
func onlyPlain(d handshake.Dialer) func(context.Context, string, string) (net.Conn, error) {
	refusal := d
	refusal.DialFunc = func(_ context.Context, network, _ string) (net.Conn, error) {
		return nil, fmt.Errorf("mysqlprof: dial: the dialer registered for %q can't be reached from BeforeConnect: set Config.DialFunc to it", network)
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !plain(network) {
			return refusal.DialContext(ctx, network, addr)
		}
		return d.DialContext(ctx, network, addr)
	}
}

// endpoint has the address that the driver makes of the Config's (dsn.go, normalize).
func endpoint(cfg *mysql.Config) profiler.Endpoint {
	addr := cfg.Addr
	switch {
	case cfg.Net == "unix" && addr == "":
		addr = "/tmp/mysql.sock"
	case (cfg.Net == "" || cfg.Net == "tcp") && addr == "":
		addr = "127.0.0.1:3306"
	case cfg.Net == "" || cfg.Net == "tcp":
		if _, _, err := net.SplitHostPort(addr); err != nil {
			addr = net.JoinHostPort(addr, "3306")
		}
	}
	return profiler.Endpoint{System: "mysql", Address: addr, Namespace: cfg.DBName}
}

// keepAlive does what the driver does to a *net.TCPConn, which it no longer sees (connector.go: "Enable TCP Keepalives").
func keepAlive(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if tc, ok := nc.(*net.TCPConn); ok && err == nil {
			tc.SetKeepAlive(true)
		}
		return nc, err
	}
}

// hooked reports whether the user's BeforeConnect runs before each dial. The driver keeps it in a field that is not exported; whether it is
// nil can be asked all the same. A driver version without the field has no such hook as far as can be seen.
func hooked(cfg *mysql.Config) bool {
	f := reflect.ValueOf(cfg).Elem().FieldByName("beforeConnect")
	return f.IsValid() && f.Kind() == reflect.Func && !f.IsNil()
}

// setupTurns counts the statements that the driver sends between login and hand-over (connector.go, Connect), -1 if it can't be told:
// with several charsets it tries one after the other, and BeforeConnect may change the Config each time.
func setupTurns(cfg *mysql.Config) int {
	if hooked(cfg) {
		return -1
	}
	n := 0
	if cfg.MaxAllowedPacket <= 0 {
		n++
	}
	if len(cfg.Params) > 0 {
		n++
	}
	switch strings.Count(charsets(cfg), ",") {
	case 0:
		if charsets(cfg) != "" {
			n++
		}
	default:
		return -1
	}
	return n
}

// charsets is the Config's list of charsets, which only FormatDSN shows.
func charsets(cfg *mysql.Config) string {
	dsn := cfg.FormatDSN()
	i := strings.LastIndexByte(dsn, '?')
	if i < 0 {
		return ""
	}
	for _, kv := range strings.Split(dsn[i+1:], "&") {
		if v, ok := strings.CutPrefix(kv, "charset="); ok {
			return strings.ReplaceAll(v, "%2C", ",")
		}
	}
	return ""
}

// loginError tells an error of the login from one of a statement after it: those listed are the server's refusals of a login (MySQL and
// MariaDB error references); an error that is not the server's can't be told, and counts as the login's.
func loginError(err error) bool {
	var me *mysql.MySQLError
	if !errors.As(err, &me) {
		return true
	}
	switch me.Number {
	case 1040, 1043, 1044, 1045, 1049, 1129, 1130, 1184, 1203, 1226, 1251, 1275, 1698, 1820, 1862, 2059, 3118, 3159, 4151:
		return true
	}
	return false
}

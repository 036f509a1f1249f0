package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/profiler"
)

const mysqlModule = "github.com/go-sql-driver/mysql"

// embeddedMySQL asks for a row by its primary key. The driver puts the argument into the text, which makes a query one round trip; the
// other measure lets it prepare the statement each time, as it does by default, which makes it two.
func embeddedMySQL(s *embedded.MySQL, tls bool, dial dialFunc) *variant {
	statement := fmt.Sprintf("SELECT * FROM %s WHERE _id = ?", embedded.Table)
	argument := func(i int) any { return key(i) }
	open := func(interpolate bool) func(*profiler.Profiler) (client, error) {
		return func(p *profiler.Profiler) (client, error) {
			cfg := s.Config(tls)
			cfg.InterpolateParams = interpolate
			return openMySQL(p, cfg, dial, statement, argument)
		}
	}
	return &variant{
		system: "mysql", tls: tls, driver: driverVersion(mysqlModule), server: "embedded go-mysql-server",
		asks: "SELECT by primary key",
		trips: "The query takes one round trip, because the driver puts the argument into its text (interpolateParams=true). By " +
			"default the driver prepares it each time: two.",

		open: open(true), openPrepared: open(false),
	}
}

// userMySQL asks a server of the user's for nothing but an echo, with what the DSN says of TLS and interpolation.
func userMySQL(dsn string, dial dialFunc) (*variant, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, addressError{system: "mysql", flag: "-mysql", err: oneLine(err.Error())}
	}
	if dial != nil && cfg.Net != "tcp" {
		return nil, addressError{system: "mysql", flag: "-mysql", err: fmt.Sprintf("the emulated network carries tcp, not %s", cfg.Net)}
	}
	v := &variant{
		system: "mysql", tls: cfg.TLS != nil, tlsOptional: cfg.AllowFallbackToPlaintext,
		driver: driverVersion(mysqlModule), server: oneLine(cfg.Addr),
		asks: "SELECT ?", trips: "The query takes two round trips, because the DSN has the driver prepare it each time.",
	}
	if cfg.InterpolateParams {
		v.trips = "The query takes one round trip, because the DSN has the driver put the argument into its text."
	}
	v.open = func(p *profiler.Profiler) (client, error) {
		return openMySQL(p, cfg.Clone(), dial, "SELECT ?", func(i int) any { return i })
	}
	return v, nil
}

// openMySQL is all that it takes to profile a MySQL client: mysqlprof.OpenConfig in place of mysql.NewConnector and sql.OpenDB.
func openMySQL(p *profiler.Profiler, cfg *mysql.Config, dial dialFunc, statement string, argument func(int) any) (client, error) {
	cfg.Logger = &mysql.NopLogger{} // errors are told once, by us
	if dial != nil {
		cfg.DialFunc = dial
	}
	db, err := mysqlprof.OpenConfig(p, cfg)
	if err != nil {
		return nil, err
	}
	return &mysqlClient{db: db, statement: statement, argument: argument}, nil
}

type mysqlClient struct {
	db        *sql.DB
	statement string
	argument  func(i int) any
}

var _ client = (*mysqlClient)(nil)

func (c *mysqlClient) query(ctx context.Context, i int) error {
	rows, err := c.db.QueryContext(ctx, c.statement, c.argument(i))
	if err != nil {
		return err
	}
	n, err := readAll(rows)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows where there must be one", n)
	}
	return err
}

func (c *mysqlClient) close(context.Context) { _ = c.db.Close() }

// readAll reads every column of every row, as a program would.
func readAll(rows *sql.Rows) (n int, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for ; rows.Next(); n++ {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

package accuracy

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/pool/pgxprof"
	"github.com/connprof/connprof/profiler"
)

// queries are made on each connection: a first one and some on a reused connection.
const queries = 4

// patience bounds one connection with its queries.
const patience = 10 * time.Second

const query = "SELECT 1"

// A client makes one connection after the other, with its queries.
type client struct {
	name string
	port string // the server's
	make func(ctx context.Context) error
	seen *seen
	bare bool // without connprof
}

// seen is a Sink for the one connection at a time that a client makes.
type seen struct {
	conn      *stamped
	made      *profiler.Create
	api       []span
	wire      []span
	stopwatch []span
	other     []string // events that there should be none of
}

func (s *seen) Record(_ context.Context, e profiler.Event) {
	switch e.Kind {
	case profiler.KindCreate:
		s.made = e.Conn.Create()
	case profiler.KindOperation:
		if e.Op.Kind != profiler.OpQuery || e.Op.Err != nil || e.Op.N != uint64(len(s.api)+1) {
			s.other = append(s.other, fmt.Sprint(e.Op.Kind, e.Op.N, e.Op.Err))
		}
		s.api = append(s.api, spanOf(e.Op.Start, e.Op.FirstResponse.Sub(e.Op.Start)))
	}
}

// timed runs a query up to its first response, and what finishes it.
func (s *seen) timed(query func() (finish func() error, err error)) error {
	s.conn.begin()
	begin := time.Now()
	finish, err := query()
	took := time.Since(begin)
	if err != nil {
		return err
	}
	if err := finish(); err != nil {
		return err
	}
	s.wire = append(s.wire, s.conn.span())
	s.stopwatch = append(s.stopwatch, spanOf(begin, took))
	return nil
}

// measure makes n connections with each of the clients by turns.
func measure(ctx context.Context, n int, clients ...client) ([]measured, error) {
	var ms []measured
	for range n {
		for _, c := range clients {
			*c.seen = seen{}
			ctx, cancel := context.WithTimeout(ctx, patience)
			err := c.make(ctx)
			cancel()
			if err != nil {
				return ms, fmt.Errorf("%s: %w", c.name, err)
			}
			m, err := c.measured()
			if err != nil {
				return ms, fmt.Errorf("%s: %w", c.name, err)
			}
			ms = append(ms, m)
		}
	}
	return ms, nil
}

// measured is of the connection just made.
func (c client) measured() (m measured, err error) {
	s := c.seen
	m = measured{client: s.conn.LocalAddr().(*net.TCPAddr).Port, server: c.port, wire: s.wire, api: s.api, bare: c.bare}
	if c.bare {
		if s.made != nil || len(s.api) > 0 {
			return m, fmt.Errorf("%+v, %d operations without connprof", s.made, len(s.api))
		}
		m.api = s.stopwatch
		return m, nil
	}
	cr := s.made
	if cr == nil || cr.Err != nil || len(s.api) != queries || len(s.other) > 0 {
		return m, fmt.Errorf("create %+v, %d operations, unwanted ones: %q", cr, len(s.api), s.other)
	}
	if cr.Wire.Local != s.conn.LocalAddr().String() || !cr.TLS.Done || cr.TLS.Version != tls.VersionTLS13 || !cr.TCP.Known {
		return m, fmt.Errorf("create %+v", cr)
	}
	for p, of := range map[profiler.Phase]*span{
		profiler.Connect: &m.connect, profiler.Greet: &m.greet, profiler.TLS: &m.tls, profiler.Verify: &m.verify, profiler.Auth: &m.auth,
	} {
		s := cr.Phases[p]
		if !s.Present {
			return m, fmt.Errorf("no phase %v in %+v", p, cr)
		}
		*of = spanOf(cr.Start.Add(s.Begin), s.Duration)
	}
	m.rtt = cr.TCP.RTT
	m.tls.begin = time.Duration(cr.Start.UnixNano()) + cr.TLS.HelloWritten
	return m, nil
}

func spanOf(begin time.Time, took time.Duration) span {
	at := time.Duration(begin.UnixNano())
	return span{at, at + took}
}

// profilerOf is nil, with which nothing is wrapped, for a client without connprof.
func (c client) profilerOf() *profiler.Profiler {
	if c.bare {
		return nil
	}
	return &profiler.Profiler{Sinks: []profiler.Sink{c.seen}}
}

// newMariaDB is what mysqlprof sets up, with a stamped connection between its Dialer and the driver.
func newMariaDB(s *mariadbtest.Server, host string, bare bool, keyLog io.Writer) (client, error) {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return client{}, err
	}
	c := client{name: "MySQL (MariaDB)", port: port, seen: new(seen), bare: bare}
	p := c.profilerOf()
	cfg := s.Config(mariadbtest.Verified)
	cfg.Addr = net.JoinHostPort(host, port)
	cfg.TLS.KeyLogWriter = keyLog
	d := &handshake.Dialer{Profiler: p, Endpoint: profiler.Endpoint{System: "mysql", Address: cfg.Addr}}
	cfg.DialFunc = stamping(d.DialContext, func(s *stamped) { c.seen.conn = s })
	driver, err := mysql.NewConnector(cfg)
	if err != nil {
		return client{}, err
	}
	c.make = func(ctx context.Context) error {
		db := sql.OpenDB(&pool.Connector{Connector: driver, Profiler: p, Endpoint: d.Endpoint})
		defer db.Close()
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		for range queries {
			err := c.seen.timed(func() (func() error, error) {
				rows, err := conn.QueryContext(ctx, query)
				return rows.Close, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return c, nil
}

// newPostgreSQL has a stamped connection between pgxprof's dialer and pgx. Queries go without a round trip to prepare them.
func newPostgreSQL(s *postgrestest.Server, host string, bare bool, keyLog io.Writer) client {
	c := client{name: "PostgreSQL", port: s.Port(), seen: new(seen), bare: bare}
	cfg := s.Config(postgrestest.Verified)
	cfg.Host = host
	cfg.TLSConfig.KeyLogWriter = keyLog
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg = pgxprof.InstrumentConn(c.profilerOf(), cfg)
	cfg.DialFunc = stamping(cfg.DialFunc, func(s *stamped) { c.seen.conn = s })
	c.make = func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for range queries {
			err := c.seen.timed(func() (func() error, error) {
				rows, err := conn.Query(ctx, query) // it does not wait for the server
				rows.Close()
				return rows.Err, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

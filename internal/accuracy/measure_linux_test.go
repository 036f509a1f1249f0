package accuracy

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"net"
	"strconv"
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
}

// seen is a Sink for the one connection at a time that a client makes.
type seen struct {
	conn  *stamped
	made  *profiler.Create
	api   []time.Duration
	wire  []time.Duration
	other []string // events that there should be none of
}

func (s *seen) Record(_ context.Context, e profiler.Event) {
	switch e.Kind {
	case profiler.KindCreate:
		s.made = e.Conn.Create()
	case profiler.KindOperation:
		if e.Op.Kind != profiler.OpQuery || e.Op.Err != nil || e.Op.N != uint64(len(s.api)+1) {
			s.other = append(s.other, fmt.Sprint(e.Op.Kind, e.Op.N, e.Op.Err))
		}
		s.api = append(s.api, e.Op.FirstResponse.Sub(e.Op.Start))
	}
}

// timed runs a query and keeps what it took on the wire.
func (s *seen) timed(query func() error) error {
	s.conn.begin()
	if err := query(); err != nil {
		return err
	}
	s.wire = append(s.wire, s.conn.took())
	return nil
}

// measure makes n connections.
func (c client) measure(ctx context.Context, n int) ([]measured, error) {
	ms := make([]measured, 0, n)
	for range n {
		*c.seen = seen{}
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := c.make(ctx)
		cancel()
		if err != nil {
			return ms, fmt.Errorf("%s: %w", c.name, err)
		}
		m, err := c.seen.measured(c.port)
		if err != nil {
			return ms, fmt.Errorf("%s: %w", c.name, err)
		}
		ms = append(ms, m)
	}
	return ms, nil
}

func (s *seen) measured(server string) (m measured, err error) {
	if s.made == nil || s.made.Err != nil || len(s.api) != queries || len(s.other) > 0 {
		return m, fmt.Errorf("create %+v, %d operations, unwanted ones: %q", s.made, len(s.api), s.other)
	}
	cr := s.made
	_, port, err := net.SplitHostPort(cr.Wire.Local)
	if err != nil {
		return m, err
	}
	if m.client, err = strconv.Atoi(port); err != nil {
		return m, err
	}
	for _, p := range []profiler.Phase{profiler.Connect, profiler.TLS, profiler.Auth} {
		if !cr.Phases[p].Present {
			return m, fmt.Errorf("no phase %v in %+v", p, cr)
		}
	}
	if !cr.TLS.Done || cr.TLS.Version != tls.VersionTLS13 || !cr.TCP.Known {
		return m, fmt.Errorf("TLS %+v, TCP %+v", cr.TLS, cr.TCP)
	}
	m.server = server
	m.connect, m.rtt, m.auth = cr.Phases[profiler.Connect].Duration, cr.TCP.RTT, cr.Phases[profiler.Auth].Duration
	m.tls = cr.Phases[profiler.TLS].Begin + cr.Phases[profiler.TLS].Duration - cr.TLS.HelloWritten
	m.wire, m.api = s.wire, s.api
	return m, nil
}

// newMariaDB is what mysqlprof sets up, with a stamped connection between its Dialer and the driver.
func newMariaDB(s *mariadbtest.Server, host string, keyLog io.Writer) (client, error) {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return client{}, err
	}
	c := client{name: "MySQL (MariaDB)", port: port, seen: new(seen)}
	p := &profiler.Profiler{Sinks: []profiler.Sink{c.seen}}
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
			err := c.seen.timed(func() error {
				rows, err := conn.QueryContext(ctx, query)
				if err != nil {
					return err
				}
				for rows.Next() {
				}
				return rows.Close()
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
func newPostgreSQL(s *postgrestest.Server, host string, keyLog io.Writer) (client, error) {
	c := client{name: "PostgreSQL", port: s.Port(), seen: new(seen)}
	cfg := s.Config(postgrestest.Verified)
	cfg.Host = host
	cfg.TLSConfig.KeyLogWriter = keyLog
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg = pgxprof.InstrumentConn(&profiler.Profiler{Sinks: []profiler.Sink{c.seen}}, cfg)
	cfg.DialFunc = stamping(cfg.DialFunc, func(s *stamped) { c.seen.conn = s })
	c.make = func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		for range queries {
			err := c.seen.timed(func() error {
				rows, err := conn.Query(ctx, query)
				if err != nil {
					return err
				}
				rows.Close()
				return rows.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	return c, nil
}

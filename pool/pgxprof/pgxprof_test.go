package pgxprof

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// connect makes one connection with an instrumented cfg, closes it with the test, and returns what was seen of it.
func connect(t *testing.T, p *profiler.Profiler, cfg *pgx.ConnConfig) (*pgx.Conn, *profiler.Create) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, InstrumentConn(p, cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	cr := memberOf(conn).c.Create()
	if cr == nil {
		t.Fatal("the create has not ended")
	}
	checkSum(t, cr)
	return conn, cr
}

func checkSum(t *testing.T, cr *profiler.Create) {
	t.Helper()
	var sum time.Duration
	for p := range profiler.Phases {
		sum += cr.Phases[p].Duration
	}
	if sum != cr.Duration {
		t.Errorf("phases sum to %v, create took %v", sum, cr.Duration)
	}
}

func phaseNames(cr *profiler.Create) string {
	var s []string
	for p := range profiler.Phases {
		if cr.Phases[p].Present && p != profiler.Other {
			s = append(s, p.String())
		}
	}
	return strings.Join(s, " ")
}

// poolConfig is a pool's configuration for one connection configuration.
func poolConfig(t *testing.T, s *postgrestest.Server, cc *pgx.ConnConfig) *pgxpool.Config {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(s.DSN(postgrestest.User, postgrestest.Password, "sslmode=disable"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig = cc
	return cfg
}

func open(t *testing.T, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// to points cfg at another address.
func to(t *testing.T, cfg *pgx.ConnConfig, addr string) *pgx.ConnConfig {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Host, cfg.Port = host, uint16(n)
	return cfg
}

// recorder keeps the creates that are reported.
type recorder struct {
	mu      sync.Mutex
	creates []*profiler.Conn
}

func (r *recorder) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.creates = append(r.creates, e.Conn)
	}
}

// of returns the creates of one role.
func (r *recorder) of(role profiler.Role) (crs []*profiler.Create) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.creates {
		if c.Role() == role {
			crs = append(crs, c.Create())
		}
	}
	return crs
}

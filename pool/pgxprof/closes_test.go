package pgxprof

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// closings keeps the closes that are reported.
type closings struct {
	mu  sync.Mutex
	all []profiler.Close
}

func (c *closings) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindClose {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, e.Close)
	}
}

func TestAPoolsClosesHaveTheirReasons(t *testing.T) {
	s := postgrestest.Start(t)
	root, err := pgx.ConnectConfig(context.Background(), s.RootConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close(context.Background()) })
	use := func(t *testing.T, db *pgxpool.Pool) {
		t.Helper()
		if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(context.Context, *pgx.Conn) bool { return false }
	for _, tt := range []struct {
		name string
		set  func(*pgxpool.Config)
		run  func(*testing.T, *pgxpool.Pool)
		want profiler.CloseReason
		err  error
	}{
		{"too old at a checkout", func(c *pgxpool.Config) { c.MaxConnLifetime = 50 * time.Millisecond }, func(t *testing.T, db *pgxpool.Pool) {
			use(t, db)
			time.Sleep(60 * time.Millisecond)
			use(t, db)
		}, profiler.CloseLifetime, nil},
		{"too old at its return", func(c *pgxpool.Config) { c.MaxConnLifetime = 50 * time.Millisecond }, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(60 * time.Millisecond)
			c.Release()
		}, profiler.CloseLifetime, nil},
		{"too old while idle", func(c *pgxpool.Config) {
			c.MaxConnLifetime, c.MaxConnLifetimeJitter, c.HealthCheckPeriod = 50*time.Millisecond, time.Millisecond, 10*time.Millisecond
		}, use, profiler.CloseLifetime, nil},
		{"idle for too long", func(c *pgxpool.Config) {
			c.MaxConnIdleTime, c.HealthCheckPeriod = 50*time.Millisecond, 10*time.Millisecond
		}, use, profiler.CloseIdleTime, nil},
		{"the pool is closed", nil, func(t *testing.T, db *pgxpool.Pool) { use(t, db); db.Close() }, profiler.ClosePoolClosed, nil},
		{"the pool is closed while it is in use", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			closed := make(chan struct{})
			go func() { db.Close(); close(closed) }()
			until(t, "the pool's close begins", func() bool { _, err := db.Acquire(t.Context()); return err != nil })
			c.Release()
			<-closed
		}, profiler.ClosePoolClosed, nil},
		{"the pool is closed, and made it by itself", func(c *pgxpool.Config) { c.MinConns = 1 }, func(t *testing.T, db *pgxpool.Pool) {
			until(t, "a connection", func() bool { return db.Stat().IdleConns() == 1 })
			db.Close()
		}, profiler.CloseUnknown, nil},
		{"the pool is reset", nil, func(t *testing.T, db *pgxpool.Pool) { use(t, db); db.Reset() }, profiler.CloseStale, nil},
		{"the server ends it", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			if _, err := root.Exec(t.Context(), "SELECT pg_terminate_backend($1)", c.Conn().PgConn().PID()); err != nil {
				t.Fatal(err)
			}
			until(t, "an error", func() bool { _, err := c.Exec(t.Context(), "SELECT 1"); return err != nil })
		}, profiler.CloseError, nil},
		{"the server ends it with a word", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			if _, err := c.Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())"); err == nil {
				t.Error("no error")
			}
		}, profiler.CloseError, nil},
		{"a deadline", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			c.Exec(ctx, "SELECT pg_sleep(60)")
		}, profiler.CloseCanceled, nil},
		{"a deadline among the rows", nil, func(t *testing.T, db *pgxpool.Pool) {
			use(t, db)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rows, err := db.Query(ctx, "SELECT generate_series(1, 10000000)", pgx.QueryExecModeExec)
			if err != nil {
				t.Fatal(err)
			}
			rows.Next()
			cancel()
			for rows.Next() {
			}
			rows.Close()
		}, profiler.CloseCanceled, nil},
		{"returned inside a transaction", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			if _, err := c.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, profiler.CloseUnknown, errInTransaction},
		{"returned in the middle of a query", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			if _, err := c.Query(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
		}, profiler.CloseUnknown, errBusy},
		{"BeforeAcquire refuses it", func(c *pgxpool.Config) { *acquireHook(c) = refuse; c.MaxConns = 1 }, func(t *testing.T, db *pgxpool.Pool) {
			if _, err := db.Acquire(t.Context()); err == nil {
				t.Error("a connection was found")
			}
		}, profiler.CloseUnknown, errRefused},
		{"PrepareConn refuses it", func(c *pgxpool.Config) {
			c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, errors.New("no") }
		}, func(t *testing.T, db *pgxpool.Pool) { db.Acquire(t.Context()) }, profiler.CloseUnknown, errRefused},
		{"AfterRelease refuses it", func(c *pgxpool.Config) { c.AfterRelease = func(*pgx.Conn) bool { return false } }, use,
			profiler.CloseUnknown, errRefused},
		{"it is taken from the pool and closed", nil, func(t *testing.T, db *pgxpool.Pool) {
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.Hijack().Close(t.Context())
		}, profiler.CloseUnknown, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cs := new(closings)
			p := &profiler.Profiler{Sinks: []profiler.Sink{cs}}
			cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
			if tt.set != nil {
				tt.set(cfg)
			}
			db := open(t, Instrument(p, cfg))
			tt.run(t, db)
			until(t, "a close", func() bool {
				return len(p.Report().Endpoints) > 0 && p.Report().Endpoint("", profiler.RolePool).Closed > 0
			})
			p.Flush()
			cs.mu.Lock()
			got := cs.all[0]
			cs.mu.Unlock()
			if got.Reason != tt.want || tt.err != nil && got.Err != tt.err {
				t.Errorf("closed by %v, %v; want %v, %v", got.Reason, got.Err, tt.want, tt.err)
			}
			// The pool's own counts are of the same closes, and of more that came since.
			st, e := db.Stat(), p.Report().Endpoint("", profiler.RolePool)
			if (st.MaxLifetimeDestroyCount() > 0) != (e.ClosedBy["lifetime"] > 0) || (st.MaxIdleDestroyCount() > 0) != (e.ClosedBy["idle_time"] > 0) {
				t.Errorf("the pool counts %d for age and %d for idle time, the report has %v",
					st.MaxLifetimeDestroyCount(), st.MaxIdleDestroyCount(), e.ClosedBy)
			}
		})
	}
}

func TestTheProgramsBeforeCloseIsCalled(t *testing.T) {
	s := postgrestest.Start(t)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	var closed []*pgx.Conn
	cfg.BeforeClose = func(c *pgx.Conn) { closed = append(closed, c) }
	db := open(t, Instrument(new(profiler.Profiler), cfg))
	one(t, db)
	db.Close()
	if len(closed) != 1 {
		t.Errorf("BeforeClose was called %d times", len(closed))
	}
}

// A program that leaves rows open and closes its connection has closed it all the same.
func TestAConnectionClosedWithItsRowsOpenIsClosed(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	conn, _ := connect(t, p, s.Config(postgrestest.Plain))
	if _, err := conn.Query(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	if e := p.Report().Endpoint("", profiler.RolePool); e.Live != 0 || e.ClosedBy["unknown"] != 1 {
		t.Errorf("%d live, closed by %v", e.Live, e.ClosedBy)
	}
}

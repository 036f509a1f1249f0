package pgxprof

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// A program may make one pool after another, or several at once, with one configuration.
func TestPoolsOfOneConfigurationHaveTheirOwnEnds(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tt := range []struct {
		name   string
		set    func(*pgxpool.Config)
		reuse  func(*pgxpool.Config, *pgxpool.Pool) *pgxpool.Config
		second func(t *testing.T, db *pgxpool.Pool)
		want   string
		atOnce bool
	}{
		{"idle for too long", func(c *pgxpool.Config) {
			c.MaxConnIdleTime, c.HealthCheckPeriod = 50*time.Millisecond, 10*time.Millisecond
		}, nil, nil, "idle_time", false},
		{"idle for too long, with the first one's Config", func(c *pgxpool.Config) {
			c.MaxConnIdleTime, c.HealthCheckPeriod = 50*time.Millisecond, 10*time.Millisecond
		}, func(_ *pgxpool.Config, db *pgxpool.Pool) *pgxpool.Config { return db.Config() }, nil, "idle_time", false},
		{"reset", nil, nil, func(t *testing.T, db *pgxpool.Pool) { db.Reset() }, "stale", false},
		{"reset, while there were two", nil, nil, func(t *testing.T, db *pgxpool.Pool) { db.Reset() }, "stale", true},
		{"closed", nil, nil, func(t *testing.T, db *pgxpool.Pool) { db.Close() }, "pool_closed", false},
		{"a copy's shorter life", nil, func(c *pgxpool.Config, _ *pgxpool.Pool) *pgxpool.Config {
			c = c.Copy()
			c.MaxConnLifetime = 50 * time.Millisecond
			return c
		}, func(t *testing.T, db *pgxpool.Pool) {
			time.Sleep(60 * time.Millisecond)
			one(t, db)
		}, "lifetime", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := new(profiler.Profiler)
			cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
			if tt.set != nil {
				tt.set(cfg)
			}
			cfg = Instrument(p, cfg)
			first := open(t, cfg)
			one(t, first)
			if tt.reuse != nil {
				cfg = tt.reuse(cfg, first)
			}
			if !tt.atOnce {
				first.Close()
			}
			second := open(t, cfg)
			one(t, second)
			first.Close()
			until(t, "the first one's close", func() bool { return p.Report().Endpoint("", profiler.RolePool).ClosedBy["pool_closed"] > 0 })
			if tt.second != nil {
				tt.second(t, second)
			}
			until(t, "a close", func() bool { return p.Report().Endpoint("", profiler.RolePool).Closed > 1 })
			want := map[string]int64{"pool_closed": 1}
			want[tt.want]++
			if e := p.Report().Endpoint("", profiler.RolePool); !maps.Equal(e.ClosedBy, want) {
				t.Errorf("closed by %v, want %v", e.ClosedBy, want)
			}
		})
	}
}

// What a pool of one configuration counts among its waits is not another's.
func TestPoolsOfOneConfigurationHaveTheirOwnWaits(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MaxConns = 1
	cfg = Instrument(p, cfg)
	busy, other := open(t, cfg), open(t, cfg)
	defer Watch(p, "busy", busy)()
	one(t, busy)
	one(t, other)
	for busy.Stat().EmptyAcquireCount() < 2 { // the first made its connection
		held, err := busy.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Millisecond, held.Release)
		one(t, busy)
	}
	st := busy.Stat()
	if ps := p.Report().Pools; len(ps) != 1 || ps[0].WaitCount != st.EmptyAcquireCount()-1 || ps[0].WaitDuration <= 0 {
		t.Errorf("pools %+v, want all %d waits but the one for its own connection", ps, st.EmptyAcquireCount())
	}
}

// A program that makes pool after pool with one configuration keeps none of them.
func TestClosedPoolsAreForgotten(t *testing.T) {
	s := postgrestest.Start(t)
	cfg := Instrument(new(profiler.Profiler), poolConfig(t, s, s.Config(postgrestest.Plain)))
	h := cfg.ConnConfig.Tracer.(*tracer).hooks.pool
	for range 10 {
		db := open(t, cfg)
		one(t, db)
		db.Close()
	}
	var never []*pgxpool.Pool
	for range maxOwners + 5 { // whose end nothing tells
		db := open(t, cfg)
		h.owners.of(db)
		never = append(never, db)
	}
	if n := len(h.owners.all); n != maxOwners || h.owners.of(never[len(never)-1]) != h.owners.all[n-1] {
		t.Errorf("%d pools are kept, want the last %d", n, maxOwners)
	}
}

// A caller waits for one pool, also where reports add up several.
func TestPoolsOfOneConfigurationHaveTheirOwnCallers(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MaxConns = 1
	cfg = Instrument(p, cfg)
	busy, other := open(t, cfg), open(t, cfg)
	defer Watch(p, "both", busy)()
	defer Watch(p, "both", other)()
	held, err := busy.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := busy.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { _, err := busy.Exec(t.Context(), "SELECT 1"); served <- err }()
	until(t, "a caller", func() bool { return p.Report().Pools[0].Pending > 0 })
	if ps := p.Report().Pools; len(ps) != 1 || ps[0].Live != 2 || ps[0].Pending != 1 || ps[0].Timeouts != 1 {
		t.Errorf("pools %+v, want one caller who waits and one who timed out", ps)
	}
	held.Release()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if ps := p.Report().Pools; ps[0].Pending != 0 {
		t.Errorf("pools %+v, want nobody waiting", ps)
	}
}

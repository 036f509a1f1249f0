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

// A pool of one connection that is in use: others wait, one of them for too long, one gives up.
func TestAWatchedPoolTellsWhoWaits(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MaxConns, cfg.MinIdleConns, cfg.MaxConnLifetime = 1, 1, time.Minute
	db := open(t, Instrument(p, cfg))
	stop := Watch(p, "", db)
	defer stop()
	pool := func() profiler.PoolReport { return p.Report().Pools[0] }
	held, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until := func(pending int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); pool().Pending != pending; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d wait, want %d", pool().Pending, pending)
			}
		}
	}
	until(0)
	if w := pool(); w.Name != s.Addr || w.MaxOpen != 1 || w.Open != 1 || w.InUse != 1 || w.Idle != 0 || w.MinIdle != 1 ||
		w.MaxLifetime != time.Minute || !w.PendingKnown || !w.TimeoutsKnown {
		t.Errorf("%+v", w)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	acquire := func(ctx context.Context, want error) {
		c, err := db.Acquire(ctx)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err == nil {
			c.Release()
		}
	}
	wg.Go(func() { acquire(ctx, context.Canceled) })
	wg.Go(func() { acquire(t.Context(), nil) })
	until(2)
	late, cancelLate := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancelLate()
	acquire(late, context.DeadlineExceeded)
	cancel()
	until(1)
	held.Release()
	wg.Wait()
	until(0)
	if w := pool(); w.Timeouts != 1 || w.Idle != 1 || w.InUse != 0 {
		t.Errorf("%+v", w)
	}
	stop()
	if w := pool(); w.Live != 0 || w.Timeouts != 1 || w.MaxOpen != 0 {
		t.Errorf("after stop %+v", w)
	}
	Watch(nil, "", db)()
}

// panicky is a tracer of a program's that panics when it is told of an Acquire.
type panicky struct{ pgx.QueryTracer }

func (panicky) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (panicky) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (panicky) TraceAcquireStart(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireStartData) context.Context {
	panic("tracer")
}
func (panicky) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

func TestACallerWhoseTracerPanicsDoesNotWait(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cc := s.Config(postgrestest.Plain)
	cc.Tracer = panicky{}
	db := open(t, Instrument(p, poolConfig(t, s, cc)))
	stop := Watch(p, "db", db)
	defer stop()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the tracer's panic was swallowed")
			}
		}()
		db.Exec(t.Context(), "SELECT 1")
	}()
	if ps := p.Report().Pools; len(ps) != 1 || ps[0].Pending != 0 {
		t.Errorf("pools %+v, want nobody waiting", ps)
	}
}

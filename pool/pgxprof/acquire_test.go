package pgxprof

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// until waits for ok: what a pool does in the background nobody tells.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// one is the operation of a statement that runs through the pool.
func one(t *testing.T, db *pgxpool.Pool) profiler.Operation {
	t.Helper()
	got := ops(t, func(ctx context.Context) error { _, err := db.Exec(ctx, "SELECT 1"); return err })
	if len(got) != 1 {
		t.Fatalf("operations %+v", got)
	}
	return got[0]
}

// C11: the caller gave up, the dial did not.
func TestACallerWhoGivesUpWaitedAndItsConnectionIsMadeAllTheSame(t *testing.T) {
	s := postgrestest.Start(t)
	var rec recorder
	p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
	cc := s.Config(postgrestest.Plain)
	goOn := make(chan struct{})
	cc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-goOn
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	db := open(t, Instrument(p, poolConfig(t, s, cc)))
	dial := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(dial) // or else the pool's Close waits for ever
	const patience = 50 * time.Millisecond
	const least = patience / 2 // it asks a little after its time begins
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var tl profiler.Timeline
	if _, err := db.Exec(profiler.WithSink(ctx, &tl), "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	e := p.Report().Endpoint(s.Addr, profiler.RolePool)
	wait := e.Measure(profiler.MeasureWait, profiler.Timeout)
	if wait == nil || wait.Count != 1 || wait.Sum < least || e.Created != 0 || e.Failed != 0 {
		t.Fatalf("report %+v, want one wait that timed out after %v, and a create that goes on", e, patience)
	}
	dial()
	until(t, "the connection", func() bool { return db.Stat().IdleConns() == 1 })
	e = p.Report().Endpoint(s.Addr, profiler.RolePool)
	first, reused := e.Queries()
	if e.Created != 1 || e.Failed != 0 || e.ByCaller != 1 || first+reused != 0 {
		t.Errorf("report %+v, want one good create under the caller's context, that nobody used", e)
	}
	if crs := rec.of(profiler.RolePool); len(crs) != 1 || crs[0].Duration < least || !crs[0].Caller {
		t.Errorf("creates %+v", crs)
	}
	if !slices.ContainsFunc(p.Report().Findings, func(f profiler.Finding) bool {
		return f.ID == "connect_outlasts_wait" && strings.Contains(f.Advice, "MinConns")
	}) {
		t.Errorf("findings %+v, want the advice to keep connections ready", p.Report().Findings)
	}
	if evs := tl.Events(); len(evs) != 2 || evs[0].Kind != profiler.KindWaitFailed || evs[0].Op.Wait != wait.Sum ||
		evs[0].Op.Outcome != profiler.Timeout || evs[1].Kind != profiler.KindCreate {
		t.Errorf("the caller's own timeline has %+v, want the wait and the create", evs)
	}
	// The next caller finds it free.
	if op := one(t, db); op.N != 1 || !op.WaitKnown || op.WaitFor != profiler.WaitFree || op.Queued != op.Wait || op.Attempts != 1 {
		t.Errorf("operation %+v, want the first of a connection that was free", op)
	}
}

func TestACallerThatTheQueueLosesIsCounted(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MaxConns = 1
	db := open(t, Instrument(p, cfg))
	held, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithCancel(t.Context())
	const patience = 20 * time.Millisecond
	time.AfterFunc(patience, cancel)
	if _, err := db.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if m := p.Report().Endpoint("", profiler.RolePool).Measure(profiler.MeasureWait, profiler.Canceled); m == nil || m.Count != 1 || m.Sum < patience {
		t.Errorf("canceled waits %+v, want one of %v", m, patience)
	}
}

func TestALivenessCheckIsNoWaitAndNoOperation(t *testing.T) {
	s := postgrestest.Start(t)
	r := newRelay(t, s.Addr)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, to(t, s.Config(postgrestest.Plain), r.addr))
	asked := 0
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { asked++; return asked > 1 }
	db := open(t, Instrument(p, cfg))
	if op := one(t, db); op.Check != 0 || op.N != 1 {
		t.Errorf("first %+v, want no check", op)
	}
	const slow = 200 * time.Millisecond
	r.delay.Store(int64(slow))
	op := one(t, db)
	if op.Check < slow || op.N != 2 || op.Start.Sub(op.Asked) < op.Wait+op.Check {
		t.Errorf("operation %+v, want a check of %v after the wait", op, slow)
	}
	r.delay.Store(0)
	e := p.Report().Endpoint("", profiler.RolePool)
	first, reused := e.Queries()
	if m := e.Measure(profiler.MeasureCheck, profiler.OK); m == nil || m.Count != 1 || m.Sum != op.Check || first != 1 || reused != 1 {
		t.Errorf("report %+v, want one check of %v and two queries", e, op.Check)
	}
}

// The pool's own rule, which Instrument has to answer for: pgxpool pings what was idle for more than a second.
func TestThePoolPingsAsItDoesByItself(t *testing.T) {
	s := postgrestest.Start(t)
	for _, p := range []*profiler.Profiler{nil, new(profiler.Profiler)} {
		r := newRelay(t, s.Addr)
		db := open(t, Instrument(p, poolConfig(t, s, to(t, s.Config(postgrestest.Plain), r.addr))))
		use := func() (turns int64) {
			before := r.turns.Load()
			c, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			return r.turns.Load() - before
		}
		use()
		at := time.Now()
		if n := use(); n != 0 && time.Since(at) < time.Second {
			t.Errorf("%d turns for a connection that was just used", n)
		}
		time.Sleep(1050 * time.Millisecond)
		if n := use(); n != 1 {
			t.Errorf("profiled %v: %d turns for one that was idle, want 1", p != nil, n)
		}
	}
}

func TestAConnectionFoundDeadIsStaleAndReplaced(t *testing.T) {
	s := postgrestest.Start(t)
	r := newRelay(t, s.Addr)
	var rec recorder
	p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
	cfg := poolConfig(t, s, to(t, s.Config(postgrestest.Plain), r.addr))
	cfg.ShouldPing = func(_ context.Context, params pgxpool.ShouldPingParams) bool {
		return memberOf(params.Conn).c.Ops() > 0
	}
	db := open(t, Instrument(p, cfg))
	one(t, db)
	const idle = 20 * time.Millisecond
	time.Sleep(idle)
	r.cut()
	op := one(t, db)
	if op.N != 1 || op.Attempts != 2 || op.StaleIdle < idle || op.Check != 0 || op.WaitFor != profiler.WaitCreate {
		t.Errorf("operation %+v, want the first on a second connection", op)
	}
	until(t, "the close", func() bool { return p.Report().Endpoint("", profiler.RolePool).Closed == 1 })
	e := p.Report().Endpoint("", profiler.RolePool)
	if e.Stale != 1 || e.ClosedBy["stale"] != 1 || e.Live != 1 {
		t.Errorf("%d stale, closed by %v, %d live", e.Stale, e.ClosedBy, e.Live)
	}
	if crs := rec.of(profiler.RolePool); len(crs) != 2 || crs[0].Replaces != profiler.CloseUnknown || crs[1].Replaces != profiler.CloseStale {
		t.Errorf("creates %+v, want the second to replace the stale one", crs)
	}
	if d := e.Distribution(profiler.MeasureStaleIdle, profiler.OK); d == nil || d.Count != 1 || d.Min < idle {
		t.Errorf("stale after %+v", d)
	}
}

// A caller gives up while its connection is checked: the check goes on, and the connection is nobody's fault.
func TestACheckThatIsAbandonedIsNoDeath(t *testing.T) {
	s := postgrestest.Start(t)
	r := newRelay(t, s.Addr)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, to(t, s.Config(postgrestest.Plain), r.addr))
	cfg.ShouldPing = func(_ context.Context, params pgxpool.ShouldPingParams) bool {
		return memberOf(params.Conn).c.Ops() == 1
	}
	db := open(t, Instrument(p, cfg))
	one(t, db)
	r.delay.Store(int64(200 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := db.Acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	until(t, "the pool takes the connection back", func() bool { return db.Stat().IdleConns() == 1 })
	r.delay.Store(0)
	if op := one(t, db); op.N != 2 || op.Attempts != 1 {
		t.Errorf("operation %+v, want one on the same connection", op)
	}
	if e := p.Report().Endpoint("", profiler.RolePool); e.Stale != 0 || e.Closed != 0 || e.Measure(profiler.MeasureWait, profiler.Canceled).Count != 1 {
		t.Errorf("report %+v", e)
	}
}

func TestWhatThePoolsHooksRunIsNoOperation(t *testing.T) {
	s := postgrestest.Start(t)
	ran := 0
	run := func(ctx context.Context, c *pgx.Conn) {
		ran++
		c.Exec(ctx, "SELECT 2")
	}
	for _, tt := range []struct {
		name string
		set  func(*pgxpool.Config)
	}{
		{"PrepareConn", func(c *pgxpool.Config) {
			c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { run(ctx, conn); return true, nil }
		}},
		{"BeforeAcquire", func(c *pgxpool.Config) {
			*acquireHook(c) = func(ctx context.Context, conn *pgx.Conn) bool { run(ctx, conn); return true }
		}},
		{"AfterRelease", func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.AfterRelease = func(conn *pgx.Conn) bool { run(context.Background(), conn); return true }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := new(profiler.Profiler)
			cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
			tt.set(cfg)
			cfg = Instrument(p, Instrument(p, cfg))
			ran = 0
			db := open(t, cfg)
			one(t, db)
			if op := one(t, db); op.N != 2 || !op.WaitKnown {
				t.Errorf("operation %+v, want the second", op)
			}
			db.Close()
			e := p.Report().Endpoint("", profiler.RolePool)
			if first, reused := e.Queries(); first != 1 || reused != 1 || ran != 2 {
				t.Errorf("%d first, %d reused; the hook ran %d times, want 2", first, reused, ran)
			}
		})
	}
}

// C10: the replacement of a connection that a deadline cost has its cause.
func TestADeadlineCostsAConnectionUnlessPgxIsToldToKeepIt(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tt := range []struct {
		name    string
		keep    bool
		created int64
		replace []profiler.CloseReason
	}{
		{"by default", false, 2, []profiler.CloseReason{profiler.CloseUnknown, profiler.CloseCanceled}},
		{"with CancelRequestContextWatcherHandler", true, 1, []profiler.CloseReason{profiler.CloseUnknown}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rec recorder
			p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
			cc := s.Config(postgrestest.Verified)
			if tt.keep {
				cc.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
					return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
				}
			}
			db := open(t, Instrument(p, poolConfig(t, s, cc)))
			one(t, db)
			held, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			const deadline = 300 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if _, err := held.Exec(ctx, "SELECT pg_sleep(60)"); err == nil {
				t.Fatal("it slept")
			}
			held.Release()
			until(t, "the connection is sorted out", func() bool { s := db.Stat(); return s.AcquiredConns() == 0 && s.ConstructingConns() == 0 })
			one(t, db)
			r := p.Report()
			e, c := r.Endpoint(s.Addr, profiler.RolePool), r.Endpoint(s.Addr, profiler.RoleCancel)
			if e.Created != tt.created || e.ClosedBy["canceled"] != tt.created-1 || e.Live != 1 || c == nil || c.Created+c.Failed != 1 {
				t.Errorf("report %v, want %d connections and one for a cancel request", r, tt.created)
			}
			// The 50 ms are no latency of a query that went well.
			timeouts := e.Measure(profiler.MeasureReusedQuery, profiler.Timeout)
			if timeouts == nil || timeouts.Count != 1 || timeouts.Sum <= 0 {
				t.Errorf("timed out %+v", timeouts)
			}
			var got []profiler.CloseReason
			for _, cr := range rec.of(profiler.RolePool) {
				got = append(got, cr.Replaces)
			}
			if len(got) != len(tt.replace) || got[len(got)-1] != tt.replace[len(got)-1] {
				t.Errorf("the creates replace %v, want %v", got, tt.replace)
			}
		})
	}
}

func TestAPoolsOwnCounters(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MaxConns, cfg.MaxConnIdleTime, cfg.MaxConnLifetime = 2, time.Minute, time.Hour
	db := open(t, Instrument(p, cfg))
	stop := Watch(p, "", db)
	if Watch(nil, "", db) == nil {
		t.Error("a nil Profiler has no stop")
	}
	pool := func() profiler.PoolReport {
		t.Helper()
		r := p.Report()
		if len(r.Pools) != 1 || r.Pools[0].Name != s.Addr {
			t.Fatalf("pools %+v", r.Pools)
		}
		return r.Pools[0]
	}
	a, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Two had connections made for them: none of them waited for a free one.
	if r := pool(); r.MaxOpen != 2 || r.Open != 2 || r.InUse != 2 || r.WaitCount != 0 || r.WaitDuration != 0 ||
		r.MaxIdleTime != time.Minute || r.MaxLifetime != time.Hour {
		t.Errorf("pool %+v", r)
	}
	const hold = 30 * time.Millisecond
	time.AfterFunc(hold, a.Release)
	one(t, db)
	if r := pool(); r.WaitCount != 1 || r.WaitDuration < hold/2 || r.InUse != 1 || r.Idle != 1 {
		t.Errorf("pool %+v, want one wait of %v", r, hold)
	}
	b.Release()
	db.Close()
	stop()
	stop()
	if r := pool(); r.Live != 0 || r.Opened != 1 || r.Open != 0 || r.WaitCount != 1 {
		t.Errorf("pool %+v after its end", r)
	}

	var bare profiler.Profiler
	plain := open(t, poolConfig(t, s, s.Config(postgrestest.Plain)))
	defer Watch(&bare, "mine", plain)()
	if _, err := plain.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if rs := bare.Report().Pools; len(rs) != 1 || rs[0].Name != "mine" || rs[0].Idle != 1 || rs[0].WaitCount != 1 {
		t.Errorf("pools %+v, want the counters of one that is not instrumented", rs)
	}
}

func TestACheckBelongsToTheUseThatFollowsIt(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	check := false
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return check }
	db := open(t, Instrument(p, cfg))
	one(t, db)
	check = true
	c, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Release() // runs nothing
	check = false
	if op := one(t, db); op.Check != 0 {
		t.Errorf("an operation whose connection was not checked has a check of %v", op.Check)
	}
	check = true
	if op := one(t, db); op.Check == 0 {
		t.Error("an operation whose connection was checked has no check")
	}
}

// The stack at a checkout is the caller's own.
func TestWhoHoldsAPoolsConnectionIsKnown(t *testing.T) {
	s := postgrestest.Start(t)
	p := &profiler.Profiler{Holders: true, HeldIdleAfter: 200 * time.Millisecond}
	db := open(t, Instrument(p, poolConfig(t, s, s.Config(postgrestest.Plain))))
	acquires := func() func() {
		c, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Release
	}
	begins := func() func() {
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return func() { tx.Rollback(context.Background()) }
	}
	for _, free := range []func(){acquires(), acquires(), begins()} {
		defer free()
	}
	time.Sleep(300 * time.Millisecond)
	e := p.Report().Endpoint("", profiler.RolePool)
	if len(e.Holders) != 2 || e.Holders[0].Count != 2 || e.Holders[1].Count != 1 || e.Holders[0].Line > e.Holders[1].Line {
		t.Fatalf("%d held idle, by %+v", e.HeldIdle, e.Holders)
	}
	for i, h := range e.Holders {
		if !strings.Contains(h.Function, "TestWhoHoldsAPoolsConnectionIsKnown") {
			t.Errorf("%d: %v", i, h)
		}
	}
}

// A pool's AcquireAllIdle tells its tracer nothing, but the hook that refuses a connection does.
func TestAConnectionRefusedAmongAllIdleOnesIsNotReset(t *testing.T) {
	s := postgrestest.Start(t)
	cs := new(closings)
	p := &profiler.Profiler{Sinks: []profiler.Sink{cs}}
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	var refusal error
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, refusal }
	db := open(t, Instrument(p, cfg))
	one(t, db)
	for _, c := range db.AcquireAllIdle(t.Context()) { // as good as any other use
		if _, err := c.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	if e := p.Report().Endpoint("", profiler.RolePool); e.Closed != 0 || e.HeldIdle != 0 {
		t.Errorf("%d closed, %d held", e.Closed, e.HeldIdle)
	}
	refusal = errors.New("no")
	if all := db.AcquireAllIdle(t.Context()); len(all) != 0 {
		t.Fatalf("%d connections", len(all))
	}
	until(t, "a close", func() bool { return p.Report().Endpoint("", profiler.RolePool).Closed == 1 })
	p.Flush()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if got := cs.all[0]; got.Reason != profiler.CloseUnknown || got.Err != errRefused {
		t.Errorf("closed by %v, %v; want what the hook said", got.Reason, got.Err)
	}
}

package mysqlprof

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// operations collects the operations that ended.
type operations struct {
	mu  sync.Mutex
	ops []profiler.Operation // mu
}

func (o *operations) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindOperation {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ops = append(o.ops, e.Op)
	}
}

func (o *operations) last(t *testing.T) profiler.Operation {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ops) == 0 {
		t.Fatal("no operation")
	}
	return o.ops[len(o.ops)-1]
}

// opened is a profiled pool on cfg and what ran on it.
func opened(t *testing.T, cfg *mysql.Config) (*pool.DB, *profiler.Profiler, *operations) {
	t.Helper()
	ops := new(operations)
	p := &profiler.Profiler{Sinks: []profiler.Sink{ops}}
	cfg.Logger = &mysql.NopLogger{}
	db, err := OpenConfig(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return pool.Wrap(db), p, ops
}

func found(p *profiler.Profiler, id string) *profiler.Finding {
	for _, f := range p.Report().Findings {
		if f.ID == id {
			return &f
		}
	}
	return nil
}

// C02: the wait for the pool is not the query's.
func TestAWaitForThePoolIsNotASlowQuery(t *testing.T) {
	s := mariadbtest.Start(t)
	db, p, ops := opened(t, config(s, false))
	db.SetMaxOpenConns(1)
	if err := db.Ping(); err != nil { // there is a connection to wait for
		t.Fatal(err)
	}
	const hold = 300 * time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() { db.Exec(fmt.Sprintf("DO SLEEP(%g)", hold.Seconds())) })
	for db.Stats().InUse == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	if _, err := db.Exec("DO 1"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	op := ops.last(t)
	said := db.Stats().WaitDuration // database/sql's own
	if op.Wait < hold/2 || op.Wait < said || op.Wait > said+said/4 || op.Queued != op.Wait || op.WaitFor != profiler.WaitFree {
		t.Errorf("waited %v for %v, %v of it in the queue; database/sql says %v", op.Wait, op.WaitFor, op.Queued, said)
	}
	if took := op.End.Sub(op.Start); took > hold/2 {
		t.Errorf("the query took %v", took)
	}
	if e := p.Report().Endpoint(s.Addr, profiler.RolePool); e.Created != 1 {
		t.Errorf("%d connections were made, want the one", e.Created)
	}
	if f := found(p, "pool_saturated"); f == nil || !strings.Contains(f.Advice, "MaxOpenConns") {
		t.Errorf("finding %+v", f)
	}
	// With room in the pool and a slow connect it is a create, and no wait for a free connection.
	cfg := config(s, false)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(100 * time.Millisecond)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	db, p, ops = opened(t, cfg)
	if _, err := db.Exec("DO 1"); err != nil {
		t.Fatal(err)
	}
	op = ops.last(t)
	if op.Wait < 100*time.Millisecond || op.Queued > op.Wait/2 || op.WaitFor != profiler.WaitCreate || found(p, "pool_saturated") != nil {
		t.Errorf("waited %v, %v of it in the queue, for %v", op.Wait, op.Queued, op.WaitFor)
	}
}

// C04: rows that nobody closes look like a pool that is too small.
func TestRowsThatNobodyClosesAreHeldIdle(t *testing.T) {
	s := mariadbtest.Start(t)
	db, p, _ := opened(t, config(s, false))
	p.HeldIdleAfter, p.Holders = 300*time.Millisecond, true // before anything reads it
	db.SetMaxOpenConns(4)
	busy, err := db.Conn(t.Context()) // held on purpose, and at work
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	var leaked []*sql.Row
	for range 3 {
		leaked = append(leaked, db.QueryRow("SELECT 1"))
	}
	for range 16 {
		if _, err := busy.ExecContext(t.Context(), "DO 1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "DO 1"); err != context.DeadlineExceeded {
		t.Fatalf("a fifth connection: %v", err)
	}
	if _, err := busy.ExecContext(t.Context(), "DO 1"); err != nil {
		t.Fatal(err)
	}
	e := p.Report().Endpoint(s.Addr, profiler.RolePool)
	f := found(p, "held_idle")
	if e.HeldIdle != 3 || f == nil || f.Severity != "warning" || !strings.Contains(f.Advice, "Rows.Close") {
		t.Errorf("%d held idle, finding %+v; want the three and not the one at work", e.HeldIdle, f)
	}
	if h := e.Holders; len(h) != 1 || h[0].Count != 3 || !strings.HasSuffix(h[0].Function, "TestRowsThatNobodyClosesAreHeldIdle") ||
		!strings.HasSuffix(h[0].File, "use_test.go") || !strings.Contains(f.Evidence, h[0].String()) {
		t.Errorf("held by %+v, finding %+v", h, f)
	}
	if f := found(p, "pool_saturated"); f == nil || strings.Contains(f.Advice, "raise MaxOpenConns") {
		t.Errorf("finding %+v", f)
	}
	for _, r := range leaked {
		var n int
		r.Scan(&n)
	}
	if e := p.Report().Endpoint(s.Addr, profiler.RolePool); e.HeldIdle != 0 {
		t.Errorf("%d held idle after they were closed", e.HeldIdle)
	}
}

// C06: a retried dead connection is one operation.
func TestAKilledConnectionIsAnAttemptAndNoError(t *testing.T) {
	s := mariadbtest.Start(t)
	db, p, ops := opened(t, config(s, true))
	db.SetMaxOpenConns(1)
	var id int
	if err := db.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	killer, err := OpenConfig(nil, config(s, false))
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close()
	if _, err := killer.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
		t.Fatal(err)
	}
	waitGone(t, killer, id)
	before := p.Report()
	if _, err := db.ExecContext(t.Context(), "DO 1"); err != nil {
		t.Fatal(err)
	}
	op := ops.last(t)
	if op.Attempts != 2 || op.StaleIdle < 20*time.Millisecond || op.Err != nil || op.N != 1 || op.WaitFor != profiler.WaitCreate {
		t.Errorf("operation %+v", op)
	}
	r := p.Report()
	e := r.Sub(before).Endpoint(s.Addr, profiler.RolePool)
	first, reused := e.Queries()
	if first != 1 || reused != 0 || e.Created != 1 || e.Stale != 1 || e.ClosedBy["stale"] != 1 {
		t.Errorf("%d first, %d reused, %d dials, %d stale, closed %v", first, reused, e.Created, e.Stale, e.ClosedBy)
	}
	for _, o := range []profiler.Outcome{profiler.Failed, profiler.Canceled, profiler.Timeout} {
		if e.Measure(profiler.MeasureFirstQuery, o) != nil || e.Measure(profiler.MeasureReusedQuery, o) != nil {
			t.Errorf("an error was counted")
		}
	}
}

// forgetful is a relay that drops all bytes of a connection that was idle for longer than limit, and keeps it open.
type forgetful struct {
	l     net.Listener
	limit time.Duration
	wg    sync.WaitGroup
}

func forget(t *testing.T, to string, limit time.Duration) *forgetful {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{l: l, limit: limit}
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.relay(c, to) })
		}
	})
	t.Cleanup(func() { l.Close(); f.wg.Wait() })
	return f
}

func (f *forgetful) relay(c net.Conn, to string) {
	d, err := net.Dial("tcp", to)
	if err != nil {
		c.Close()
		return
	}
	var last atomic.Int64
	var lost atomic.Bool
	last.Store(time.Now().UnixNano())
	pass := func(dst, src net.Conn) {
		defer c.Close()
		defer d.Close()
		b := make([]byte, 1<<14)
		for {
			n, err := src.Read(b)
			now := time.Now().UnixNano()
			if time.Duration(now-last.Swap(now)) > f.limit {
				lost.Store(true)
			}
			if n > 0 && !lost.Load() {
				dst.Write(b[:n])
			}
			if err != nil {
				return
			}
		}
	}
	f.wg.Go(func() { pass(c, d) })
	pass(d, c)
}

// C09: a connection whose peer is gone without a word.
func TestAConnectionForgottenOnTheWayIsSuspected(t *testing.T) {
	s := mariadbtest.Start(t)
	relay := forget(t, s.Addr, 1500*time.Millisecond)
	cfg := config(s, false)
	cfg.Addr = relay.l.Addr().String()
	db, p, ops := opened(t, cfg)
	for _, step := range []struct {
		idle time.Duration
		ok   bool
	}{{0, true}, {600 * time.Millisecond, true}, {1700 * time.Millisecond, false}, {0, true}} {
		time.Sleep(step.idle)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := db.ExecContext(ctx, "DO 1")
		cancel()
		if (err == nil) != step.ok {
			t.Fatalf("after %v: %v", step.idle, err)
		}
		if op := ops.last(t); !step.ok && (op.Outcome != profiler.Timeout || op.Idle < step.idle || op.Sent == 0 || op.Received != 0 || !op.BytesKnown) {
			t.Errorf("operation %+v; want it sent and not answered", op)
		}
	}
	e := p.Report().Endpoint("", profiler.RolePool)
	if e.Silent != 1 || e.SilentIdle < 1700*time.Millisecond || e.AnsweredIdle < 600*time.Millisecond || e.AnsweredIdle > time.Second {
		t.Errorf("%d silent after %v, answered after %v", e.Silent, e.SilentIdle, e.AnsweredIdle)
	}
	if m := e.Measure(profiler.MeasureReusedQuery, profiler.OK); m.Max > 200*time.Millisecond {
		t.Errorf("the silence was counted as a latency: %v", m.Max)
	}
	if f := found(p, "half_open"); f == nil || f.Severity != "info" || !strings.Contains(f.Advice, "ConnMaxIdleTime") {
		t.Errorf("finding %+v", f)
	}
	if e.ClosedBy["canceled"] != 1 {
		t.Errorf("closed %v", e.ClosedBy)
	}
}

// commands counts the requests on the wire that the server answers: MySQL's command packets begin with sequence number 0.
type commands struct {
	net.Conn
	n *atomic.Int64
}

func (c commands) Write(b []byte) (int, error) {
	const comStmtClose = 0x19 // not answered
	if len(b) > 4 && b[3] == 0 && b[4] != comStmtClose {
		c.n.Add(1)
	}
	return c.Conn.Write(b)
}

// C32: parameters double the round trips, unless they are interpolated or the statement is used again.
func TestRoundTripsAreThoseOnTheWire(t *testing.T) {
	s := mariadbtest.Start(t)
	var n atomic.Int64
	cfg := config(s, false)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return commands{nc, &n}, nil
	}
	ip := cfg.Clone()
	ip.InterpolateParams = true
	db, p, ops := opened(t, cfg)
	interpolated, _, ipOps := opened(t, ip)
	row := func(db *pool.DB, q string, args ...any) error {
		var v any
		return db.QueryRow(q, args...).Scan(&v)
	}
	var st *sql.Stmt
	for _, tt := range []struct {
		name     string
		ops      *operations
		run      func() error
		turns    int64
		prepared profiler.Prepared
	}{
		{"text", ops, func() error { return row(db, "SELECT 1") }, 1, profiler.NotPrepared},
		{"with a parameter", ops, func() error { return row(db, "SELECT ?", 1) }, 2, profiler.PreparedOnce},
		{"with a parameter, exec", ops, func() error { _, err := db.Exec("DO ?", 1); return err }, 2, profiler.PreparedOnce},
		{"interpolated", ipOps, func() error { return row(interpolated, "SELECT ?", 1) }, 1, profiler.NotPrepared},
		{"prepare", ops, func() (err error) { st, err = db.Prepare("SELECT ?"); return err }, 1, profiler.NotPrepared},
		{"a statement", ops, func() error { var v any; return st.QueryRow(1).Scan(&v) }, 1, profiler.PreparedBefore},
		{"a statement again", ops, func() error { var v any; return st.QueryRow(1).Scan(&v) }, 1, profiler.PreparedBefore},
		{"begin and commit", ops, func() error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			if turns := ops.last(t).Turns; turns != 1 {
				t.Errorf("begin took %d turns", turns)
			}
			before := n.Load()
			err = tx.Commit()
			n.Add(-before)
			return err
		}, 0, profiler.NotPrepared},
		{"begin at an isolation level", ops, func() error {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err == nil {
				t.Cleanup(func() { tx.Rollback() })
			}
			return err
		}, 2, profiler.NotPrepared},
	} {
		if err := row(interpolated, "SELECT 1"); err != nil { // its connection exists
			t.Fatal(err)
		}
		before := n.Load()
		if err := tt.run(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		op, wire := tt.ops.last(t), n.Load()-before
		if tt.turns == 0 {
			continue
		}
		if int64(op.Turns) != tt.turns || wire != tt.turns && tt.name != "text" || op.Prepared != tt.prepared {
			t.Errorf("%s: %d turns, %d on the wire, want %d; prepared %v, want %v", tt.name, op.Turns, wire, tt.turns, op.Prepared, tt.prepared)
		}
	}
	if found(p, "prepared_once") != nil {
		t.Error("two calls are no finding")
	}
	for i := range 30 {
		if err := row(db, "SELECT ?", i); err != nil {
			t.Fatal(err)
		}
	}
	r := p.Report()
	e := r.Endpoint("", profiler.RolePool)
	saved := e.PrepareTime / time.Duration(e.PreparedOnce)
	if f := found(p, "prepared_once"); f == nil || !strings.Contains(f.Advice, "interpolateParams=true") || saved <= 0 ||
		!strings.Contains(f.Advice, "each call then takes about ") {
		t.Errorf("finding %+v, where a call would save %v", f, saved)
	}
	db, p, _ = opened(t, config(s, false))
	st2, err := db.Prepare("SELECT ?")
	if err != nil {
		t.Fatal(err)
	}
	defer st2.Close()
	for i := range 50 {
		var v any
		if err := st2.QueryRow(i).Scan(&v); err != nil {
			t.Fatal(err)
		}
	}
	if f := found(p, "prepared_once"); f != nil {
		t.Errorf("a statement that is used again: %+v", f)
	}
}

// C36: that a query returned does not mean that it is finished, and a slow caller is not a slow database.
func TestRowsThatComeSlowlyAreNotASlowCaller(t *testing.T) {
	s := mariadbtest.Start(t)
	db, _, ops := opened(t, config(s, false))
	read := func(query string, pause time.Duration) profiler.Operation {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		op := ops.last(t)
		if op.Driver+op.Consumer != op.End.Sub(op.FirstResponse) {
			t.Errorf("%v and %v don't sum to %v", op.Driver, op.Consumer, op.End.Sub(op.FirstResponse))
		}
		return op
	}
	op := read("SELECT REPEAT('x', 2000), SLEEP(0.0005) FROM seq_1_to_500", 0)
	// The server sleeps 250 ms in all.
	if response, rows := op.FirstResponse.Sub(op.Start), op.End.Sub(op.FirstResponse); rows < 100*time.Millisecond || op.Driver < rows*9/10 {
		t.Errorf("slow rows: first response %v, rows %v, driver %v, caller %v", response, rows, op.Driver, op.Consumer)
	}
	op = read("SELECT seq FROM seq_1_to_200", time.Millisecond)
	if op.Consumer < 200*time.Millisecond || op.Driver > op.Consumer/4 {
		t.Errorf("a slow caller: driver %v, caller %v", op.Driver, op.Consumer)
	}
	// An error in the middle is the operation's.
	rows, err := db.Query("SELECT REPEAT('x', 2000), IF(seq = 400, (SELECT 1 UNION SELECT 2), 1) FROM seq_1_to_500")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	rows.Close()
	if op := ops.last(t); rows.Err() == nil || n == 0 || op.Err != rows.Err() || op.Outcome != profiler.Failed {
		t.Errorf("after %d rows: %v; operation %+v", n, rows.Err(), op)
	}
}

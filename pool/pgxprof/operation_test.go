package pgxprof

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// ops are the operations that f runs.
func ops(t *testing.T, f func(ctx context.Context) error) (all []profiler.Operation) {
	t.Helper()
	var tl profiler.Timeline
	if err := f(profiler.WithSink(t.Context(), &tl)); err != nil {
		t.Fatal(err)
	}
	for _, ev := range tl.Events() {
		if ev.Kind == profiler.KindOperation {
			all = append(all, ev.Op)
		}
	}
	return all
}

// Round trips of every kind of operation and every mode, counted by who reads the server's messages.
func TestTheTurnsOfAnOperationAreThoseOfTheProtocol(t *testing.T) {
	s := postgrestest.Start(t)
	const cacheStatement, cacheDescribe, describeExec, exec, simple = pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol
	const no, once, kept = profiler.NotPrepared, profiler.PreparedOnce, profiler.PreparedKept
	query := func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT $1::int", 1)
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	}
	execute := func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT $1::int + 1", 1)
		return err
	}
	noArguments := func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT 3")
		return err
	}
	row := func(ctx context.Context, c *pgx.Conn) error {
		var n int
		return c.QueryRow(ctx, "SELECT $1::int + 2", 1).Scan(&n)
	}
	batch := func(ctx context.Context, c *pgx.Conn) error {
		b := new(pgx.Batch)
		b.Queue("SELECT $1::int + 4", 1)
		b.Queue("SELECT $1::int + 5", 1)
		return c.SendBatch(ctx, b).Close()
	}
	copies := func(ctx context.Context, c *pgx.Conn) error {
		n, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromSlice(5_000, func(i int) ([]any, error) { return []any{i}, nil }))
		if err == nil && n != 5_000 {
			err = fmt.Errorf("%d rows copied", n)
		}
		return err
	}
	var ran, unknown atomic.Int64
	defer func() {
		if n := unknown.Load(); n*20 > ran.Load() {
			t.Errorf("the turns of %d of %d operations are unknown", n, ran.Load())
		}
	}()
	for _, tt := range []struct {
		name     string
		mode     pgx.QueryExecMode
		run      func(context.Context, *pgx.Conn) error
		kind     profiler.OpKind
		turns    [3]int // of the same thing three times
		prepared [3]profiler.Prepared
	}{
		{"query", cacheStatement, query, profiler.OpQuery, [3]int{2, 1, 1}, [3]profiler.Prepared{kept, no, no}},
		{"query", cacheDescribe, query, profiler.OpQuery, [3]int{2, 1, 1}, [3]profiler.Prepared{kept, no, no}},
		{"query", describeExec, query, profiler.OpQuery, [3]int{2, 2, 2}, [3]profiler.Prepared{once, once, once}},
		{"query", exec, query, profiler.OpQuery, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"query", simple, query, profiler.OpQuery, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"row", cacheStatement, row, profiler.OpQuery, [3]int{2, 1, 1}, [3]profiler.Prepared{kept, no, no}},
		{"exec", cacheStatement, execute, profiler.OpQuery, [3]int{2, 1, 1}, [3]profiler.Prepared{kept, no, no}},
		{"exec", describeExec, execute, profiler.OpQuery, [3]int{2, 2, 2}, [3]profiler.Prepared{once, once, once}},
		{"exec without arguments", cacheStatement, noArguments, profiler.OpQuery, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"a mode of its own", cacheStatement, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SELECT $1::int + 6", describeExec, 1)
			return err
		}, profiler.OpQuery, [3]int{2, 2, 2}, [3]profiler.Prepared{once, once, once}},
		{"batch", cacheStatement, batch, profiler.OpBatch, [3]int{2, 1, 1}, [3]profiler.Prepared{}},
		{"batch", describeExec, batch, profiler.OpBatch, [3]int{2, 2, 2}, [3]profiler.Prepared{}},
		{"batch", exec, batch, profiler.OpBatch, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"batch", simple, batch, profiler.OpBatch, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"copy", cacheStatement, copies, profiler.OpCopy, [3]int{2, 1, 1}, [3]profiler.Prepared{kept, no, no}},
		{"copy", exec, copies, profiler.OpCopy, [3]int{2, 2, 2}, [3]profiler.Prepared{once, once, once}},
		{"prepare", cacheStatement, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Prepare(ctx, "", "SELECT $1::int + 7")
			return err
		}, profiler.OpPrepare, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
		{"a transaction's begin", cacheStatement, func(ctx context.Context, c *pgx.Conn) error {
			tx, err := c.Begin(ctx)
			if err == nil {
				err = tx.Rollback(context.Background())
			}
			return err
		}, profiler.OpBegin, [3]int{1, 1, 1}, [3]profiler.Prepared{}},
	} {
		t.Run(tt.name+", "+tt.mode.String(), func(t *testing.T) {
			for _, secure := range []bool{false, true} {
				r := newRelay(t, s.Addr)
				cfg := s.Config(postgrestest.Plain)
				if secure {
					r = newSecureRelay(t, s.Addr, serverTLS(s), false)
					cfg.TLSConfig = s.ClientTLS(postgrestest.Verified)
				}
				cfg.DefaultQueryExecMode = tt.mode
				conn, _ := connect(t, new(profiler.Profiler), to(t, cfg, r.addr))
				if _, err := conn.Exec(t.Context(), "CREATE TEMPORARY TABLE t (n int)"); err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					before := r.turns.Load()
					got := ops(t, func(ctx context.Context) error { return tt.run(ctx, conn) })
					if len(got) != 1 {
						t.Fatalf("%d operations: %+v", len(got), got)
					}
					op, wire := got[0], int(r.turns.Load()-before)
					if tt.kind == profiler.OpBegin {
						wire-- // the rollback's
					}
					ran.Add(1)
					if op.Turns == 0 { // a machine so busy that pgx began to read while it was still writing
						unknown.Add(1)
						op.Turns = tt.turns[i]
					}
					if op.Turns != tt.turns[i] || wire != op.Turns || op.Kind != tt.kind || op.Prepared != tt.prepared[i] || op.Outcome != profiler.OK {
						t.Errorf("number %d, TLS %v: %d turns, %d on the wire, want %d; %v, prepared %v, want %v, %v",
							i+1, secure, op.Turns, wire, tt.turns[i], op.Kind, op.Prepared, tt.kind, tt.prepared[i])
					}
					if tt.kind != profiler.OpCopy && (!op.BytesKnown || op.Sent < 10 || op.Received < 10) { // pgx reads ahead for a CopyFrom
						t.Errorf("number %d, TLS %v: %d bytes sent, %d received, known: %v", i+1, secure, op.Sent, op.Received, op.BytesKnown)
					}
					if (op.Preparing > 0) != (op.Prepared != no) || op.Preparing >= op.FirstResponse.Sub(op.Start) {
						t.Errorf("number %d: preparing took %v of %v until the first response", i+1, op.Preparing, op.FirstResponse.Sub(op.Start))
					}
				}
			}
		})
	}
}

// A statement that fails is invalidated in pgx's cache, and deallocated before the next query: a turn that no tracer sees.
func TestATurnThatPgxTakesForItselfIsCounted(t *testing.T) {
	s := postgrestest.Start(t)
	r := newRelay(t, s.Addr)
	conn, _ := connect(t, new(profiler.Profiler), to(t, s.Config(postgrestest.Plain), r.addr))
	run := func(divisor int) (profiler.Operation, int64) {
		before := r.turns.Load()
		got := ops(t, func(ctx context.Context) error {
			conn.Exec(ctx, "SELECT 1 / $1::int", divisor)
			return nil
		})
		return got[0], r.turns.Load() - before
	}
	for i, want := range []struct {
		divisor, turns int
		outcome        profiler.Outcome
	}{{1, 2, profiler.OK}, {0, 1, profiler.Failed}, {1, 3, profiler.OK}} {
		op, wire := run(want.divisor)
		for try := 0; op.Turns == 0 && want.divisor != 0 && i == 2 && try < 3; try++ { // unknown: see above
			run(0)
			op, wire = run(1)
		}
		if op.Turns == 0 && i == 0 {
			op.Turns = want.turns
		}
		if op.Turns != want.turns || int(wire) != want.turns || op.Outcome != want.outcome {
			t.Errorf("number %d: %d turns, %d on the wire, want %d; %v, want %v", i+1, op.Turns, wire, want.turns, op.Outcome, want.outcome)
		}
	}
}

func TestTheFirstResponseIsApartFromTheRows(t *testing.T) {
	s := postgrestest.Start(t)
	r := newRelay(t, s.Addr)
	p := new(profiler.Profiler)
	conn, _ := connect(t, p, to(t, s.Config(postgrestest.Plain), r.addr))
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil { // pgx may still be reading ahead since a login on a busy machine
		t.Fatal(err)
	}
	const answer, consume = 30 * time.Millisecond, 300 * time.Millisecond
	r.delay.Store(int64(answer))
	got := ops(t, func(ctx context.Context) error {
		rows, err := conn.Query(ctx, "SELECT generate_series(1, 3)", pgx.QueryExecModeDescribeExec)
		if err != nil {
			return err
		}
		for rows.Next() {
			time.Sleep(consume / 3)
		}
		return rows.Err()
	})[0]
	// Preparing waited for one delayed answer; the rows came before the other.
	if got.Preparing < answer || got.FirstResponse.Sub(got.Start) < got.Preparing {
		t.Errorf("preparing %v, first response after %v; want both after %v", got.Preparing, got.FirstResponse.Sub(got.Start), answer)
	}
	if rows := got.End.Sub(got.FirstResponse); rows < consume {
		t.Errorf("first response after %v, then rows for %v; want the consumer's %v among the rows", got.FirstResponse.Sub(got.Start), rows, consume)
	}
	e := p.Report().Endpoint("", profiler.RolePool)
	if m := e.Measure(profiler.MeasureRows, profiler.OK); m == nil || m.Sum < consume {
		t.Errorf("rows %+v", m)
	}
	if e.PreparedOnce != 1 || e.PrepareTime != got.Preparing {
		t.Errorf("%d prepared once, in %v; want 1 in %v", e.PreparedOnce, e.PrepareTime, got.Preparing)
	}
}

func TestAFailedOperationEndsWithTheServersAnswer(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	conn, _ := connect(t, p, s.Config(postgrestest.Plain))
	got := ops(t, func(ctx context.Context) error {
		if _, err := conn.Exec(ctx, "SELECT nonsense"); err == nil {
			return errors.New("nonsense went well")
		}
		return nil
	})[0]
	if got.Outcome != profiler.Failed || got.Turns > 1 || got.FirstResponse.After(got.End) || !got.FirstResponse.After(got.Start) {
		t.Errorf("operation %+v", got)
	}
	e := p.Report().Endpoint("", profiler.RolePool)
	if m := e.Measure(profiler.MeasureFirstQuery, profiler.Failed); m == nil || m.Count != 1 || e.Live != 1 {
		t.Errorf("report %+v, want one failed first query", e)
	}
}

// pgx shows the statements of a Tx to its tracer as queries.
func TestTheStatementsOfATransactionHaveTheirKinds(t *testing.T) {
	s := postgrestest.Start(t)
	conn, _ := connect(t, new(profiler.Profiler), s.Config(postgrestest.Plain))
	got := ops(t, func(ctx context.Context) error {
		for _, o := range []pgx.TxOptions{
			{}, {IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}, {AccessMode: pgx.ReadWrite},
			{DeferrableMode: pgx.NotDeferrable}, {IsoLevel: pgx.RepeatableRead},
		} {
			tx, err := conn.BeginTx(ctx, o)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
				return err
			}
			if err := tx.Commit(ctx); err != nil {
				return err
			}
		}
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		return tx.Rollback(ctx)
	})
	var kinds []string
	for _, op := range got {
		kinds = append(kinds, op.Kind.String())
	}
	if got, want := strings.Join(kinds, " "), strings.Repeat("begin query commit ", 5)+"begin rollback"; got != want {
		t.Errorf("kinds %q, want %q", got, want)
	}
	for _, text := range []string{
		"BEGIN", "begin;", "begin transaction", "begin read", "begin read only x", "begin  read only", "beginning", "commit and chain",
		"rollback to savepoint sp_1", "Commit", "", "savepoint sp_1",
	} {
		if k := kindOf(text); k != profiler.OpQuery {
			t.Errorf("%q is a %v", text, k)
		}
	}
}

// pgx does not say that such a CopyFrom has ended.
func TestACopyThatFailsAtOnceLosesNoOtherOperation(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tt := range []struct {
		name   string
		change func(*pgx.ConnConfig)
	}{
		{"no such table", func(*pgx.ConnConfig) {}},
		{"no cache", func(c *pgx.ConnConfig) { c.StatementCacheCapacity = 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := s.Config(postgrestest.Plain)
			tt.change(cfg)
			p := new(profiler.Profiler)
			conn, _ := connect(t, p, cfg)
			for i := range 3 {
				if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"nosuchtable"}, []string{"n"}, pgx.CopyFromRows(nil)); err == nil {
					t.Fatal("the copy went well")
				}
				got := ops(t, func(ctx context.Context) error { _, err := conn.Exec(ctx, "SELECT 1"); return err })
				if len(got) != 1 || got[0].N != uint64(2*i+2) || got[0].Turns > 1 {
					t.Errorf("operations %+v, want one, number %d of the connection", got, 2*i+2)
				}
			}
			e := p.Report().Endpoint("", profiler.RolePool)
			first, reused := e.Queries()
			if n := int64(first+reused) + e.Excluded; n != 6 {
				t.Errorf("%d first, %d reused, %d excluded; want 6 in all", first, reused, e.Excluded)
			}
		})
	}
}

// A batch that fails before anything is sent ends twice.
func TestABatchThatFailsAtOnceEndsOnce(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := s.Config(postgrestest.Plain)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, _ := connect(t, p, cfg)
	b := new(pgx.Batch)
	b.Queue("SELECT $1", make(chan int))
	br := conn.SendBatch(t.Context(), b)
	rows, err := conn.Query(t.Context(), "SELECT 1")
	if err != nil {
		t.Fatal(err)
	}
	if err := br.Close(); err == nil {
		t.Error("the batch went well")
	}
	rows.Close()
	e := p.Report().Endpoint("", profiler.RolePool)
	if failed, ok := e.Measure(profiler.MeasureFirstQuery, profiler.Failed), e.Measure(profiler.MeasureReusedQuery, profiler.OK); failed == nil || failed.Count != 1 || ok == nil || ok.Count != 1 {
		t.Errorf("report %+v, want a failed batch and a query", e)
	}
}

func TestDatabaseSQLsConnectionsAreNeverHeldIdle(t *testing.T) {
	s := postgrestest.Start(t)
	p := &profiler.Profiler{HeldIdleAfter: time.Nanosecond}
	db := stdlib.OpenDB(*InstrumentConn(p, s.Config(postgrestest.Plain)))
	defer db.Close()
	for range 2 {
		if _, err := db.Exec("SELECT 1"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(250 * time.Millisecond) // it is kept to a tenth of a second
	if e := p.Report().Endpoint("", profiler.RolePool); e.HeldIdle != 0 || e.Live != 1 {
		t.Errorf("%d of %d connections are held idle; nothing says that they are held", e.HeldIdle, e.Live)
	}
}

// database/sql makes a connection for a caller that waits when one that was in use is lost.
func TestDatabaseSQLsOwnOpenerHasNoCaller(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	db := stdlib.OpenDB(*InstrumentConn(p, s.Config(postgrestest.Plain)))
	defer db.Close()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() {
		_, err := db.ExecContext(t.Context(), "SELECT 1")
		waits <- err
	}()
	for db.Stats().WaitCount == 0 {
		time.Sleep(time.Millisecond)
	}
	conn.Raw(func(any) error { return driver.ErrBadConn })
	conn.Close()
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if e := p.Report().Endpoint("", profiler.RolePool); e.Created != 2 || e.ByCaller != 1 {
		t.Errorf("%d created, %d for a caller; want the second one to have none", e.Created, e.ByCaller)
	}
}

// openOver profiles database/sql's side and pgx's at once.
func openOver(p *profiler.Profiler, cfg *pgx.ConnConfig) *sql.DB {
	c := stdlib.GetConnector(*InstrumentConn(p, cfg))
	return pool.OpenDB(p, &pool.Connector{Connector: c, Profiler: p, Endpoint: endpoint(cfg)})
}

func TestAPoolConnectorOverTheDriverOwnsTheConnection(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	db := openOver(p, s.Config(postgrestest.Plain))
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT $1::int", 1).Scan(&n); err != nil {
		t.Fatal(err)
	}
	r := p.Report()
	e := r.Endpoint("", profiler.RolePool)
	if first, reused := e.Queries(); len(r.Endpoints) != 1 || e.Created != 1 || first != 1 || reused != 0 {
		t.Errorf("report %v, want one connection with one query", r)
	}
	db.Close()
	if e := p.Report().Endpoint("", profiler.RolePool); e.Live != 0 || e.Closed != 1 {
		t.Errorf("%d live, %d closed", e.Live, e.Closed)
	}
}

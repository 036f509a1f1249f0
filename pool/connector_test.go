package pool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

var everything = map[string]bool{"exec": true, "query": true, "reset": true, "valid": true}

func openFake(t *testing.T, p *profiler.Profiler, f *fake) *sql.DB {
	t.Helper()
	db := OpenDB(p, f)
	t.Cleanup(func() { db.Close() })
	return db
}

func pooled(p *profiler.Profiler) *profiler.EndpointReport {
	r := p.Report()
	return r.Endpoint("", profiler.RolePool)
}

func TestTheWrapperHasExactlyTheInterfacesThatMatter(t *testing.T) {
	for i := range 16 {
		exec, query, reset, valid := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		t.Run(fmt.Sprintf("exec=%v query=%v reset=%v valid=%v", exec, query, reset, valid), func(t *testing.T) {
			p := new(profiler.Profiler)
			pc := p.NewConn(profiler.Endpoint{}, profiler.RolePool)
			inner := (&fakeConn{f: new(fake), valid: true}).with(exec, query, reset, valid)
			w := wrapConn(inner, pc, new(Connector), nil)
			_, gotExec := w.(driver.ExecerContext)
			_, gotQuery := w.(driver.QueryerContext)
			_, gotReset := w.(driver.SessionResetter)
			_, gotValid := w.(driver.Validator)
			// database/sql keeps a connection over a transaction whose context ended if it has both: neither may be lost nor gained. A lone
			// SessionResetter that does nothing changes nothing.
			if gotExec != exec || gotQuery != query || gotValid != valid || gotReset != (reset || !valid) {
				t.Errorf("got exec=%v query=%v reset=%v valid=%v", gotExec, gotQuery, gotReset, gotValid)
			}
			if Unwrap(w) != inner {
				t.Errorf("Unwrap gives %T, want the driver's own %T", Unwrap(w), inner)
			}
		})
	}
}

// Each program runs bare and wrapped over every kind of connection; the driver must see the same calls and the caller the same results.
func TestTheDriverSeesTheSameCallsWrapped(t *testing.T) {
	boom := errors.New("boom")
	programs := map[string]func(db *sql.DB) error{
		"exec": func(db *sql.DB) error { _, err := db.Exec("x"); return err },
		"query": func(db *sql.DB) error {
			rows, err := db.Query("q")
			if err != nil {
				return err
			}
			for rows.Next() {
			}
			return errors.Join(rows.Err(), rows.Close())
		},
		"transaction": func(db *sql.DB) error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			_, err = tx.Exec("x")
			return errors.Join(err, tx.Rollback())
		},
		"prepared": func(db *sql.DB) error {
			s, err := db.Prepare("s")
			if err != nil {
				return err
			}
			_, err = s.Exec(1)
			_, err2 := s.Exec(2)
			return errors.Join(err, err2, s.Close())
		},
		"ping": func(db *sql.DB) error { return db.Ping() },
		"read-only": func(db *sql.DB) error {
			_, err := db.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
			return err
		},
		"isolation": func(db *sql.DB) error {
			_, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
			return err
		},
		"canceled transaction": func(db *sql.DB) error {
			ctx, cancel := context.WithCancel(context.Background())
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				cancel()
				return err
			}
			cancel()
			for !errors.Is(tx.Commit(), sql.ErrTxDone) {
				time.Sleep(time.Millisecond)
			}
			for db.Stats().InUse > 0 {
				time.Sleep(time.Millisecond)
			}
			_, err = db.Exec("after")
			return err
		},
	}
	for name, program := range programs {
		for i := range 16 {
			for _, fails := range []error{nil, boom, driver.ErrSkip, driver.ErrBadConn} {
				run := func(p *profiler.Profiler) ([]string, string) {
					f := &fake{has: map[string]bool{"exec": i&1 != 0, "query": i&2 != 0, "reset": i&4 != 0, "valid": i&8 != 0}}
					f.exec = func(string) error { return fails }
					f.rows = func(string) (driver.Rows, error) {
						if fails != nil && fails != boom {
							return nil, fails
						}
						return &fakeRows{left: 2, err: fails}, nil
					}
					db := OpenDB(p, f)
					db.SetMaxOpenConns(1)
					var errs string
					for range 2 {
						errs += fmt.Sprint(program(db), "; ")
					}
					db.Close()
					return f.calls(), errs
				}
				calls, errs := run(nil)
				gotCalls, gotErrs := run(new(profiler.Profiler))
				if !slices.Equal(calls, gotCalls) || errs != gotErrs {
					t.Errorf("%s, interfaces %04b, driver fails with %v:\nbare    %v %q\nwrapped %v %q", name, i, fails, calls, errs, gotCalls, gotErrs)
				}
			}
		}
	}
}

func TestADeclinedQueryIsOneOperationWithItsStatement(t *testing.T) {
	f := &fake{has: everything}
	declined := false
	f.rows = func(string) (driver.Rows, error) {
		if declined = !declined; declined {
			return nil, driver.ErrSkip
		}
		return &fakeRows{left: 1}, nil
	}
	p := new(profiler.Profiler)
	db := openFake(t, p, f)
	for range 3 {
		var n int
		if err := db.QueryRow("q", 1).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	e := pooled(p)
	if first, reused := e.Queries(); first != 1 || reused != 2 {
		t.Errorf("%d first, %d reused; want one operation a query\n%v", first, reused, f.calls())
	}
	if m := e.Measure(profiler.MeasureFirstQuery, profiler.Failed); m != nil {
		t.Errorf("ErrSkip was taken for an error")
	}
}

func TestRowsThatFailLateAreAFailedOperation(t *testing.T) {
	late := errors.New("connection lost")
	f := &fake{has: everything, rows: func(string) (driver.Rows, error) { return &fakeRows{left: 3, err: late}, nil }}
	p := new(profiler.Profiler)
	db := openFake(t, p, f)
	var tl profiler.Timeline
	rows, err := db.QueryContext(profiler.WithSink(t.Context(), &tl), "q")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	if rows.Err() != late {
		t.Errorf("got %v, want the driver's own error", rows.Err())
	}
	rows.Close()
	ev := tl.Events()
	if op := ev[len(ev)-1].Op; op.Err != late || op.Outcome != profiler.Failed {
		t.Errorf("operation %+v, want it failed with the iteration's error", op)
	}
}

func TestTwoOpenRowsOfOnePinnedConnectionDoNotMix(t *testing.T) {
	f := &fake{has: everything, rows: func(string) (driver.Rows, error) { return &fakeRows{left: 2}, nil }}
	p := new(profiler.Profiler)
	db := openFake(t, p, f)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Raw(func(dc any) error {
		q := dc.(driver.QueryerContext)
		a, _ := q.QueryContext(t.Context(), "a", nil)
		b, _ := q.QueryContext(t.Context(), "b", nil)
		dest := make([]driver.Value, 1)
		a.Next(dest)
		b.Next(dest)
		if err := errors.Join(a.Close(), a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		return nil
	})
	if first, reused := pooled(p).Queries(); first != 1 || reused != 1 {
		t.Errorf("%d first, %d reused, want 1 and 1", first, reused)
	}
}

func TestKeepConnHandsOutTheDriversOwnConnection(t *testing.T) {
	f := &fake{has: everything}
	p := new(profiler.Profiler)
	db := sql.OpenDB(&Connector{Connector: f, Profiler: p, KeepConn: true})
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Raw(func(dc any) error {
		if got := fmt.Sprintf("%T", dc); got != fmt.Sprintf("%T", new(fakeConn).with(true, true, true, true)) {
			t.Errorf("Raw gives %s", got)
		}
		return nil
	})
	if e := pooled(p); e.Created != 1 {
		t.Errorf("created %d, want 1", e.Created)
	}
}

// C03: a connection for a caller who waits at the limit is made under the pool's context.
func TestABackgroundCreateHasNoCaller(t *testing.T) {
	var contexts []any
	type key struct{}
	f := &fake{has: everything}
	f.dial = func(ctx context.Context, c *fakeConn) error {
		contexts = append(contexts, ctx.Value(key{}))
		c.valid = c.id > 1 // the first one is found bad when it comes back
		return nil
	}
	var creates []*profiler.Create
	p := &profiler.Profiler{Sinks: []profiler.Sink{sinkFunc(func(e profiler.Event) {
		if e.Kind == profiler.KindCreate {
			creates = append(creates, e.Conn.Create())
		}
	})}}
	db := Wrap(openFake(t, p, f))
	db.SetMaxOpenConns(1)
	first, err := db.Conn(context.WithValue(t.Context(), key{}, "A"))
	if err != nil {
		t.Fatal(err)
	}
	var tl profiler.Timeline
	done := make(chan error)
	go func() {
		_, err := db.ExecContext(profiler.WithSink(context.WithValue(t.Context(), key{}, "B"), &tl), "x")
		done <- err
	}()
	for db.Stats().WaitCount == 0 {
		time.Sleep(time.Millisecond)
	}
	first.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(creates) != 2 || !creates[0].Caller || creates[1].Caller || contexts[0] != "A" || contexts[1] != nil {
		t.Errorf("creates %v %v under %v; want the second without a caller", creates[0].Caller, creates[1].Caller, contexts)
	}
	ev := tl.Events()
	if len(ev) != 1 || !ev[0].Op.WaitKnown || ev[0].Op.N != 1 {
		t.Fatalf("events %+v; want one first query with its wait", ev)
	}
	if op := ev[0].Op; op.WaitFor != profiler.WaitBackground || op.Queued != op.Wait-creates[1].Duration || op.Queued < 0 || op.Asked.After(creates[1].Start) {
		t.Errorf("queued %v of %v for %v, asked %v, create began %v and took %v", op.Queued, op.Wait, op.WaitFor, op.Asked, creates[1].Start,
			creates[1].Duration)
	}
	if st := db.Stats(); st.WaitCount != 1 {
		t.Errorf("%d waits", st.WaitCount)
	}
}

type sinkFunc func(profiler.Event)

func (f sinkFunc) Record(_ context.Context, e profiler.Event) { f(e) }

func TestPoolCountersAreReportedUntilTheDBIsClosedAndAfter(t *testing.T) {
	p := new(profiler.Profiler)
	for range 3 {
		db := OpenDB(p, &fake{has: everything})
		db.SetMaxIdleConns(-1)
		for range 2 {
			if _, err := db.Exec("x"); err != nil {
				t.Fatal(err)
			}
		}
		db.Close()
	}
	r := p.Report()
	if len(r.Pools) != 1 || r.Pools[0].Opened != 3 || r.Pools[0].Live != 0 || r.Pools[0].IdleLimitClosed != 6 {
		t.Errorf("pools %+v; want three pools, six closes for the idle limit", r.Pools)
	}
	if e := pooled(p); e.Created != 6 || e.Closed != 6 || e.Live != 0 {
		t.Errorf("created %d, closed %d, live %d", e.Created, e.Closed, e.Live)
	}
}

func TestTwoDBsOfOneConnectorAreTwoPools(t *testing.T) {
	p := new(profiler.Profiler)
	c := &Connector{Connector: &fake{has: everything}, Profiler: p, Endpoint: profiler.Endpoint{Address: "db"}}
	a, b := OpenDB(p, c), OpenDB(p, c)
	for _, db := range []*sql.DB{a, b} {
		if err := db.Ping(); err != nil {
			t.Fatal(err)
		}
	}
	a.Close()
	if r := p.Report().Pools[0]; r.Opened != 2 || r.Live != 1 || r.Open != 1 {
		t.Errorf("after the first Close: %+v", r)
	}
	b.Close()
	if r := p.Report().Pools[0]; r.Live != 0 || r.Open != 0 {
		t.Errorf("after both: %+v", r)
	}
}

func TestATransactionBegunWhileOffHasNoWait(t *testing.T) {
	p := new(profiler.Profiler)
	db := Wrap(openFake(t, p, &fake{has: everything}))
	if _, err := db.Exec("x"); err != nil {
		t.Fatal(err)
	}
	before := pooled(p).Measure(profiler.MeasureWait, profiler.OK).Count
	p.Disable()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	p.Enable()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if after := pooled(p).Measure(profiler.MeasureWait, profiler.OK).Count; after != before {
		t.Errorf("%d waits more: Commit took the transaction's time for one", after-before)
	}
}

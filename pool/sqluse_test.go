package pool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// operations collects the operations that ended.
type operations struct{ ops []profiler.Operation }

func (o *operations) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindOperation {
		o.ops = append(o.ops, e.Op)
	}
}

func (o *operations) last(t *testing.T) profiler.Operation {
	t.Helper()
	if len(o.ops) == 0 {
		t.Fatal("no operation")
	}
	return o.ops[len(o.ops)-1]
}

// A bad connection that database/sql repeats is an attempt; one that the caller gets to see is a failed operation.
func TestWhatMetABadConnectionIsAnAttemptOrFailed(t *testing.T) {
	bad := func(n int) *fake { // the first n calls meet a bad connection
		f := &fake{has: everything}
		f.exec = func(string) error {
			if n--; n >= 0 {
				return driver.ErrBadConn
			}
			return nil
		}
		return f
	}
	for _, tt := range []struct {
		name     string
		bad      int
		run      func(ctx context.Context, db *DB) error
		fails    bool
		attempts []int // of the operations that ended
		stale    int64
		kind     profiler.OpKind
	}{
		{"one bad connection", 1, func(ctx context.Context, db *DB) error { _, err := db.ExecContext(ctx, "x"); return err },
			false, []int{2}, 1, profiler.OpExec},
		{"two bad connections", 2, func(ctx context.Context, db *DB) error { _, err := db.ExecContext(ctx, "x"); return err },
			false, []int{3}, 2, profiler.OpExec},
		{"only bad connections", 9, func(ctx context.Context, db *DB) error { _, err := db.ExecContext(ctx, "x"); return err },
			true, []int{3}, 2, profiler.OpExec},
		{"only bad connections, plain DB", 9, func(ctx context.Context, db *DB) error { _, err := db.DB.ExecContext(ctx, "x"); return err },
			true, []int{0}, 2, profiler.OpExec},
		{"one bad connection, plain DB", 1, func(ctx context.Context, db *DB) error { _, err := db.DB.ExecContext(ctx, "x"); return err },
			false, []int{0}, 1, profiler.OpExec},
		{"a pinned connection", 1, func(ctx context.Context, db *DB) error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.ExecContext(ctx, "x")
			return err
		}, true, []int{1}, 0, profiler.OpExec},
		{"a statement", 1, func(ctx context.Context, db *DB) error {
			s, err := db.PrepareContext(ctx, "x")
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = s.ExecContext(ctx)
			return err
		}, false, []int{1, 0, 0}, 1, profiler.OpExec},
		{"a statement of a pinned connection", 1, func(ctx context.Context, db *DB) error {
			c, err := db.Conn(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			s, err := c.PrepareContext(ctx, "x")
			if err != nil {
				return err
			}
			defer s.Close()
			if _, err = s.ExecContext(ctx); err == sql.ErrConnDone { // what database/sql makes of it
				err = driver.ErrBadConn
			}
			return err
		}, true, []int{1, 0}, 0, profiler.OpExec},
		{"a statement of a transaction", 9, func(ctx context.Context, db *DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			s, err := tx.PrepareContext(ctx, "x")
			if err != nil {
				return err
			}
			_, err = s.ExecContext(ctx)
			return err
		}, true, []int{1, 0, 0, 0}, 0, profiler.OpRollback},
		{"a statement of the DB's in a transaction", 9, func(ctx context.Context, db *DB) error {
			s, err := db.PrepareContext(ctx, "x")
			if err != nil {
				return err
			}
			defer s.Close()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			_, err = tx.StmtContext(ctx, s).ExecContext(ctx)
			return err
		}, true, []int{1, 1, 0, 0}, 0, profiler.OpRollback},
		{"a transaction", 1, func(ctx context.Context, db *DB) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			_, err = tx.ExecContext(ctx, "x")
			return err
		}, true, []int{1, 0, 0}, 0, profiler.OpRollback},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ops operations
			p := &profiler.Profiler{Sinks: []profiler.Sink{&ops}}
			db := Wrap(openFake(t, p, bad(tt.bad)))
			err := tt.run(t.Context(), db)
			if (err != nil) != tt.fails || tt.fails && !errors.Is(err, driver.ErrBadConn) {
				t.Errorf("error %v", err)
			}
			var attempts []int
			failed := 0
			for _, o := range ops.ops {
				attempts = append(attempts, o.Attempts)
				if o.Outcome == profiler.Failed {
					failed++
					if o.Err != driver.ErrBadConn {
						t.Errorf("failed with %v", o.Err)
					}
				}
			}
			if len(attempts) != len(tt.attempts) || attempts[0] != tt.attempts[0] || (failed == 1) != tt.fails {
				t.Errorf("attempts %v, %d failed; want %v", attempts, failed, tt.attempts)
			}
			if e := pooled(p); e.Stale != tt.stale || ops.last(t).Kind != tt.kind {
				t.Errorf("%d stale, last %v; want %d, %v", e.Stale, ops.last(t).Kind, tt.stale, tt.kind)
			}
		})
	}
}

// A connection that is found dead at checkout has its idle time told.
func TestADeadConnectionAtCheckoutIsAnAttemptWithItsIdleTime(t *testing.T) {
	f := &fake{has: everything}
	var conns []*fakeConn
	f.dial = func(_ context.Context, c *fakeConn) error { conns = append(conns, c); return nil }
	var ops operations
	p := &profiler.Profiler{Sinks: []profiler.Sink{&ops}}
	db := Wrap(openFake(t, p, f))
	if _, err := db.Exec("x"); err != nil {
		t.Fatal(err)
	}
	conns[0].valid = false
	const wait = 30 * time.Millisecond
	time.Sleep(wait)
	if _, err := db.Exec("x"); err != nil {
		t.Fatal(err)
	}
	op := ops.last(t)
	if op.Attempts != 2 || op.StaleIdle < wait || op.N != 1 || op.Err != nil || op.WaitFor != profiler.WaitCreate {
		t.Errorf("operation %+v", op)
	}
	if e := pooled(p); e.Stale != 1 || e.ClosedBy["stale"] != 1 || e.Measure(profiler.MeasureStaleIdle, profiler.OK).Min < wait {
		t.Errorf("%d stale, closed %v", e.Stale, e.ClosedBy)
	}
}

func TestWhatACallerWaitedFor(t *testing.T) {
	f := &fake{has: everything}
	var ops operations
	p := &profiler.Profiler{Sinks: []profiler.Sink{&ops}}
	plain := openFake(t, p, f)
	db := Wrap(plain)
	for _, want := range []profiler.WaitFor{profiler.WaitCreate, profiler.WaitFree} {
		if _, err := db.ExecContext(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if op := ops.last(t); op.WaitFor != want || !op.WaitKnown || op.Attempts != 1 {
			t.Errorf("operation %+v, want it to have waited for %v", op, want)
		}
	}
	if _, err := plain.ExecContext(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); op.WaitKnown || op.WaitFor != profiler.WaitUnknown || op.Attempts != 0 {
		t.Errorf("operation of a plain DB %+v", op)
	}
}

func TestPreparedUseIsToldApart(t *testing.T) {
	f := &fake{has: map[string]bool{"reset": true, "valid": true}} // no ExecerContext: prepared for each call
	var ops operations
	p := &profiler.Profiler{Sinks: []profiler.Sink{&ops}}
	db := openFake(t, p, f)
	if _, err := db.Exec("x"); err != nil {
		t.Fatal(err)
	}
	s, err := db.Prepare("s")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if op := ops.last(t); op.Prepared != profiler.PreparedBefore {
		t.Errorf("operation %+v", op)
	}
	if e := pooled(p); e.Statements != 2 || e.StatementsOnce != 1 || e.PreparedBefore != 4 {
		t.Errorf("%d statements, %d ran once, %d on prepared ones", e.Statements, e.StatementsOnce, e.PreparedBefore)
	}
}

// slow are rows of which each takes a while.
type slow struct {
	fakeRows
	each time.Duration
}

func (s *slow) Next(dest []driver.Value) error {
	time.Sleep(s.each)
	return s.fakeRows.Next(dest)
}

func TestRowsTellTheDriversTimeFromTheCallers(t *testing.T) {
	const each = 2 * time.Millisecond
	for _, tt := range []struct {
		name           string
		rows           driver.Rows
		consumer       time.Duration
		driverIsLonger bool
	}{
		{"slow rows", &slow{fakeRows{left: 20}, each}, 0, true},
		{"a slow caller", &fakeRows{left: 20}, each, false},
		{"a slow caller of many rows after fast ones", &fakeRows{left: 2000}, -each, false},
	} {
		f := &fake{has: everything, rows: func(string) (driver.Rows, error) { return tt.rows, nil }}
		var ops operations
		p := &profiler.Profiler{Sinks: []profiler.Sink{&ops}}
		rows, err := openFake(t, p, f).Query("q")
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; rows.Next(); n++ {
			if tt.consumer > 0 || tt.consumer < 0 && n > 1980 {
				time.Sleep(each)
			}
		}
		rows.Close()
		op := ops.last(t)
		if op.Driver+op.Consumer != op.End.Sub(op.FirstResponse) {
			t.Errorf("%s: %v and %v don't sum to %v", tt.name, op.Driver, op.Consumer, op.End.Sub(op.FirstResponse))
		}
		if long, short := op.Driver, op.Consumer; tt.driverIsLonger != (long > short) || max(long, short) < 15*each || min(long, short) > 5*each {
			t.Errorf("%s: driver %v, consumer %v", tt.name, op.Driver, op.Consumer)
		}
		if e := pooled(p); e.RowsDriver != op.Driver || e.RowsConsumer != op.Consumer {
			t.Errorf("%s: the report says %v, %v", tt.name, e.RowsDriver, e.RowsConsumer)
		}
	}
}

func TestClosesHaveTheirReason(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, db *sql.DB, f *fake)
		want string
	}{
		{"idle limit", func(t *testing.T, db *sql.DB, f *fake) { db.SetMaxIdleConns(-1); db.Exec("x") }, "idle_limit"},
		{"the limit is lowered", func(t *testing.T, db *sql.DB, f *fake) { db.Exec("x"); db.SetMaxIdleConns(-1) }, "idle_limit"},
		{"lifetime", func(t *testing.T, db *sql.DB, f *fake) { db.SetConnMaxLifetime(1); db.Exec("x"); db.Exec("x") }, "lifetime"},
		{"idle time", func(t *testing.T, db *sql.DB, f *fake) {
			db.SetConnMaxIdleTime(1)
			db.Exec("x")
			for db.Stats().OpenConnections > 0 { // the cleaner runs each second
				time.Sleep(10 * time.Millisecond)
			}
		}, "idle_time"},
		{"the pool is closed", func(t *testing.T, db *sql.DB, f *fake) { db.Exec("x"); db.Close() }, "pool_closed"},
		{"the pool is closed while it is in use", func(t *testing.T, db *sql.DB, f *fake) {
			c, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			db.Close()
			c.Close()
		}, "pool_closed"},
		{"the caller says that it is bad", func(t *testing.T, db *sql.DB, f *fake) {
			c, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			c.Raw(func(any) error { return driver.ErrBadConn })
		}, "unknown"},
		{"an error", func(t *testing.T, db *sql.DB, f *fake) {
			f.exec = func(string) error { return driver.ErrBadConn }
			db.Exec("x")
			db.Close()
		}, "error"},
		{"canceled", func(t *testing.T, db *sql.DB, f *fake) {
			var conn *fakeConn
			f.dial = func(_ context.Context, c *fakeConn) error { conn = c; return nil }
			f.exec = func(string) error { conn.valid = false; return context.Canceled }
			db.Exec("x")
		}, "canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{has: everything}
			var closes []profiler.Close
			p := &profiler.Profiler{Sinks: []profiler.Sink{sinkFunc(func(e profiler.Event) {
				if e.Kind == profiler.KindClose {
					closes = append(closes, e.Close)
				}
			})}}
			db := openFake(t, p, f)
			tt.run(t, db, f)
			e := pooled(p)
			if e.ClosedBy[tt.want] == 0 || e.ClosedBy[tt.want] != e.Closed || e.Live != e.Created-e.Closed {
				t.Errorf("closed %v, want %s", e.ClosedBy, tt.want)
			}
			if len(closes) == 0 || closes[0].Reason.String() != tt.want {
				t.Errorf("sink saw %+v", closes)
			}
		})
	}
}

func TestLimitsAreShownWhereTheUserTellsThem(t *testing.T) {
	limits := Limits{MaxIdleConns: 3, ConnMaxIdleTime: time.Minute, ConnMaxLifetime: time.Hour}
	p := new(profiler.Profiler)
	db := OpenDB(p, &Connector{Connector: &fake{has: everything}, Profiler: p, Endpoint: profiler.Endpoint{Address: "a"}, Limits: limits})
	defer db.Close()
	other := sql.OpenDB(&fake{has: everything})
	defer other.Close()
	defer WatchDB(p, "b", other, limits)()
	for _, r := range p.Report().Pools {
		if r.MaxIdle != 3 || r.MaxIdleTime != time.Minute || r.MaxLifetime != time.Hour {
			t.Errorf("pool %+v", r)
		}
	}
}

// Where several counters rose between two looks, the limits may tell; if not, nothing is guessed.
func TestSeveralReasonsAtOnceAreToldApartByTheLimitsOrNotAtAll(t *testing.T) {
	p := new(profiler.Profiler)
	for _, tt := range []struct {
		limits Limits
		want   profiler.CloseReason
	}{
		{Limits{}, profiler.CloseUnknown},
		{Limits{ConnMaxLifetime: time.Hour}, profiler.CloseIdleLimit},
	} {
		cs := &closes{limits: tt.limits}
		c := p.NewConn(profiler.Endpoint{Address: tt.want.String()}, profiler.RolePool)
		c.Ready(profiler.NoCaller)
		cs.explain([]closing{{conn: c, at: profiler.Now(), age: time.Minute, idle: -1}}, sql.DBStats{MaxIdleClosed: 1, MaxLifetimeClosed: 1})
		if e := p.Report().Endpoint(tt.want.String(), profiler.RolePool); e.ClosedBy[tt.want.String()] != 1 {
			t.Errorf("%+v: closed %v, want %v", tt.limits, e.ClosedBy, tt.want)
		}
	}
}

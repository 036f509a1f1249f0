package pool

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// A caller of a DB that Wrap wrapped gives up while others have all connections: it waited, and says so.
func TestACallerWhoGivesUpHasWaited(t *testing.T) {
	const patience = 20 * time.Millisecond
	for name, call := range map[string]func(ctx context.Context, db *DB) error{
		"Exec":  func(ctx context.Context, db *DB) error { _, err := db.ExecContext(ctx, "x"); return err },
		"Query": func(ctx context.Context, db *DB) error { _, err := db.QueryContext(ctx, "q"); return err },
		"QueryRow": func(ctx context.Context, db *DB) error {
			var n int
			return db.QueryRowContext(ctx, "q").Scan(&n)
		},
		"Prepare": func(ctx context.Context, db *DB) error { _, err := db.PrepareContext(ctx, "q"); return err },
		"Begin":   func(ctx context.Context, db *DB) error { _, err := db.BeginTx(ctx, nil); return err },
		"Conn":    func(ctx context.Context, db *DB) error { _, err := db.Conn(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := new(profiler.Profiler)
			db := Wrap(openFake(t, p, &fake{has: everything}))
			db.SetMaxOpenConns(1)
			held, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var tl profiler.Timeline
			ctx, cancel := context.WithTimeout(profiler.WithSink(t.Context(), &tl), patience)
			defer cancel()
			if err := call(ctx, db); err != context.DeadlineExceeded {
				t.Fatal(err)
			}
			said := db.Stats().WaitDuration // database/sql's own, which begins a moment later
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(canceled, db); err != context.Canceled {
				t.Fatal(err)
			}
			held.Close()
			if err := call(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			e := pooled(p)
			late, given := e.Measure(profiler.MeasureWait, profiler.Timeout), e.Measure(profiler.MeasureWait, profiler.Canceled)
			if late == nil || late.Count != 1 || late.Sum < said || said == 0 || given == nil || given.Count != 1 {
				t.Errorf("waits that timed out %+v, that were given up %+v", late, given)
			}
			ev := tl.Events()
			if len(ev) != 1 || ev[0].Kind != profiler.KindWaitFailed || ev[0].Op.Wait != late.Sum || ev[0].Op.Err != context.DeadlineExceeded {
				t.Errorf("the request's own events %+v", ev)
			}
		})
	}
}

// What reached the driver is an operation, and no wait in vain.
func TestAnOperationThatIsCanceledIsNoWaitInVain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{has: everything, exec: func(string) error { cancel(); return ctx.Err() }}
	p := new(profiler.Profiler)
	db := Wrap(openFake(t, p, f))
	if _, err := db.ExecContext(ctx, "x"); err != context.Canceled {
		t.Fatal(err)
	}
	if e := pooled(p); e.Measure(profiler.MeasureWait, profiler.Canceled) != nil {
		t.Errorf("measures %+v", e.Measures)
	}
}

// Which pool it is, a DB learns from a connection that its callers met: here only in vain.
func TestACallerWhoseConnectTakesTooLongHasWaited(t *testing.T) {
	p := new(profiler.Profiler)
	db := Wrap(openFake(t, p, &fake{has: everything, dial: func(ctx context.Context, _ *fakeConn) error { <-ctx.Done(); return ctx.Err() }}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "x"); err != context.DeadlineExceeded {
		t.Fatal(err)
	}
	e := pooled(p)
	if m := e.Measure(profiler.MeasureWait, profiler.Timeout); m == nil || m.Count != 1 || m.Sum < time.Millisecond {
		t.Errorf("measures %+v", e.Measures)
	}
}

// A DB of connections that are not profiled, or one that is closed, can be wrapped all the same.
func TestWrappingADBThatIsNotProfiled(t *testing.T) {
	db := OpenDB(new(profiler.Profiler), &fake{has: everything})
	db.Close()
	if _, err := Wrap(db).Exec("x"); err == nil || errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	other := sql.OpenDB(&fake{has: everything})
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Wrap(other).ExecContext(ctx, "x"); err != context.Canceled {
		t.Error(err)
	}
}

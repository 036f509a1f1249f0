package pool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/connprof/connprof/profiler"
)

// How many callers wait is known at every moment, however they come and go.
func TestHowManyCallersWaitIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(profiler.Profiler)
		p.CollectOperations()
		var refuse error
		drop := false
		dead := false
		exec := func(string) error {
			if dead {
				dead = false
				return driver.ErrBadConn
			}
			return nil
		}
		db := Wrap(openFake(t, p, &fake{has: everything, exec: exec, dial: func(context.Context, *fakeConn) error {
			if drop {
				panic("driver")
			}
			return refuse
		}}))
		db.SetMaxOpenConns(1)
		want := func(when string, now, most int64) {
			t.Helper()
			synctest.Wait()
			if e := pooled(p); e.Waiting != now || e.WaitingMost != most || !e.WaitingKnown {
				t.Errorf("%s: %d wait, %d at most (known: %t), want %d and %d", when, e.Waiting, e.WaitingMost, e.WaitingKnown, now, most)
			}
		}
		if _, err := db.ExecContext(t.Context(), "x"); err != nil { // tells whose callers they are
			t.Fatal(err)
		}
		held, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want("one has a connection", 0, 1)
		var give []context.CancelFunc
		got := make(chan error)
		for range 3 {
			for _, call := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := db.ExecContext(ctx, "x"); return err },
				func(ctx context.Context) error {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					return tx.Rollback()
				},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				give = append(give, cancel)
				go func() { got <- call(ctx) }()
			}
		}
		want("six wait", 6, 6)
		for _, cancel := range give[:2] {
			cancel()
			if err := <-got; err != context.Canceled {
				t.Fatal(err)
			}
		}
		want("two gave up", 4, 6)
		p.Disable()
		held.Close()
		for range give[2:] {
			if err := <-got; err != nil {
				t.Fatal(err)
			}
		}
		p.Enable()
		want("all were served, unrecorded", 0, 6)
		for _, cancel := range give {
			cancel()
		}

		dead = true
		if _, err := db.ExecContext(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		want("a dead connection was met, and another used", 0, 6)

		kill := func() {
			held, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held.Raw(func(any) error { return driver.ErrBadConn })
			held.Close()
		}
		kill()
		refuse = errors.New("refused")
		if _, err := db.QueryContext(t.Context(), "q"); err != refuse {
			t.Fatal(err)
		}
		if err := db.QueryRowContext(t.Context(), "q").Err(); err != refuse {
			t.Fatal(err)
		}
		if _, err := db.PrepareContext(t.Context(), "q"); err != refuse {
			t.Fatal(err)
		}
		if _, err := db.Conn(t.Context()); err != refuse {
			t.Fatal(err)
		}
		want("refused", 0, 6)
		drop = true
		if !panics(func() { db.ExecContext(t.Context(), "x") }) {
			t.Error("the driver's panic did not reach the caller")
		}
		want("the driver panicked", 0, 6)
	})
}

// Of a *sql.DB nothing tells who waits, and where nobody asks it is not counted: nothing is told.
func TestWhoWaitsIsUnknownUncounted(t *testing.T) {
	counting, plain := new(profiler.Profiler), new(profiler.Profiler)
	counting.CollectOperations()
	var db *sql.DB = openFake(t, counting, &fake{has: everything})
	wrapped := Wrap(openFake(t, plain, &fake{has: everything}))
	for range 3 {
		if _, err := db.ExecContext(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := wrapped.ExecContext(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if pooled(counting).WaitingKnown || pooled(plain).WaitingKnown {
		t.Error("it is said to be known")
	}
}

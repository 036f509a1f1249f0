package pool

import (
	"context"
	"fmt"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// counting counts what connprof asks its context for.
type counting struct {
	context.Context
	asked int
}

func (c *counting) Value(key any) any {
	if fmt.Sprintf("%T", key) == "profiler.markKey" {
		c.asked++
	}
	return c.Context.Value(key)
}

// incomparable is a context that panics when it is compared.
type incomparable struct {
	context.Context
	_ func()
}

// A program that uses marks at all pays for one look-up an operation, as deep as its context is.
func TestAnOperationLooksForItsMarkOnce(t *testing.T) {
	db := openFake(t, new(profiler.Profiler), &fake{has: everything})
	ctx := &counting{Context: profiler.Asked(context.Background())} // marks are in use
	for _, tt := range []struct {
		name string
		want int // one for each operation
		call func() error
	}{
		{"Exec", 1, func() error { _, err := db.ExecContext(ctx, "e"); return err }},
		{"Query", 1, func() error {
			r, err := db.QueryContext(ctx, "q")
			if err == nil {
				err = r.Close()
			}
			return err
		}},
		{"BeginTx and Rollback", 2, func() error {
			tx, err := db.BeginTx(ctx, nil)
			if err == nil {
				err = tx.Rollback()
			}
			return err
		}},
	} {
		ctx.Context = context.Background() // without one itself
		if err := tt.call(); err != nil {  // makes the connection
			t.Fatal(err)
		}
		ctx.asked = 0
		if err := tt.call(); err != nil {
			t.Fatal(err)
		}
		if ctx.asked != tt.want {
			t.Errorf("%s asks its context %d times, want %d", tt.name, ctx.asked, tt.want)
		}
	}
	if _, err := db.ExecContext(incomparable{Context: context.Background()}, "e"); err != nil {
		t.Error(err)
	}
}

// The mark of an operation on a pinned connection is its own context's, whatever the connection was asked for with.
func TestAPinnedConnectionAsksEachContext(t *testing.T) {
	var seen operations
	db := openFake(t, new(profiler.Profiler), &fake{has: everything})
	bg := context.Background()
	if err := db.PingContext(profiler.Asked(bg)); err != nil {
		t.Fatal(err)
	}
	c, err := db.Conn(bg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := c.ExecContext(profiler.WithSink(bg, &seen), "e"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(seen.ops); n != 2 {
		t.Errorf("%d operations for their sink, want 2", n)
	}
}

package pool

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// fakeMeter is a wire on which each begin counts one byte more.
type fakeMeter struct {
	begun, ended int
	running      bool
	silent       bool // the answers are not seen
}

func (m *fakeMeter) Settle(profiler.Instant, error)    {}
func (m *fakeMeter) Meter() profiler.Meter             { return m }
func (m *fakeMeter) Begin()                            { m.begun++; m.running = true }
func (m *fakeMeter) Answered() (int, profiler.Instant) { return m.begun, profiler.Now() }
func (m *fakeMeter) Bytes() (int64, int64, bool) {
	if m.silent {
		return 1, 0, true
	}
	return int64(m.begun), 1, true
}
func (m *fakeMeter) End() {
	if m.running {
		m.running = false
		m.ended++
	}
}

// declining has a use for operations or has none.
type declining struct {
	operations
	want  bool
	asked int
}

func (d *declining) Wants(_ context.Context, _ profiler.Kind, _ *profiler.Conn, n uint64) bool {
	d.asked++
	return d.want
}

func metered(t *testing.T, p *profiler.Profiler, f *fake) (*DB, *fakeMeter) {
	t.Helper()
	m := new(fakeMeter)
	f.dial = func(ctx context.Context, _ *fakeConn) error { profiler.FromContext(ctx).Watch(m); return nil }
	return Wrap(openFake(t, p, f)), m
}

func TestTheWireIsCountedForThoseWhoWantToKnow(t *testing.T) {
	wants, declines := &declining{want: true}, &declining{}
	for _, tt := range []struct {
		name  string
		sinks []profiler.Sink
		ctx   context.Context
		begun int
		asked int // of declines, each operation
	}{
		{"no sink", nil, t.Context(), 0, 0},
		{"a sink", []profiler.Sink{new(operations)}, t.Context(), 2, 0},
		{"a sink that wants them", []profiler.Sink{wants}, t.Context(), 2, 0},
		{"a sink that has no use for them", []profiler.Sink{declines}, t.Context(), 0, 2},
		{"one of two", []profiler.Sink{declines, wants}, t.Context(), 2, 3},
		{"the request's own", []profiler.Sink{declines}, profiler.WithSink(t.Context(), new(operations)), 2, 2},
	} {
		declines.asked = 0
		p := &profiler.Profiler{Sinks: tt.sinks}
		db, m := metered(t, p, &fake{has: everything})
		for range 2 {
			if _, err := db.ExecContext(tt.ctx, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if m.begun != tt.begun || m.ended != m.begun || declines.asked != 2*tt.asked {
			t.Errorf("%s: begun %d times, ended %d, asked %d times; want %d, asked %d", tt.name, m.begun, m.ended, declines.asked, tt.begun, 2*tt.asked)
		}
	}
}

func TestWhatADeclinedQueryGoesOnAsIsCountedWithIt(t *testing.T) {
	f := &fake{has: everything}
	f.exec = func(query string) error { return nil }
	declined := false
	f.rows = func(string) (driver.Rows, error) {
		if declined = !declined; declined {
			return nil, driver.ErrSkip
		}
		return &fakeRows{left: 1}, nil
	}
	var ops operations
	db, m := metered(t, &profiler.Profiler{Sinks: []profiler.Sink{&ops}}, f)
	for i := range 2 {
		var n int
		if err := db.QueryRow("q", 1).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if op := ops.last(t); m.begun != i+1 || m.ended != i+1 || !op.BytesKnown || op.Sent != int64(i+1) || op.Turns != i+1 {
			t.Errorf("begun %d times, ended %d: %+v", m.begun, m.ended, op)
		}
	}
	// It does not go on: the arguments are not what a statement takes.
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := len(ops.ops)
	c.Raw(func(dc any) error {
		if _, err := dc.(driver.QueryerContext).QueryContext(t.Context(), "q", nil); err != driver.ErrSkip {
			t.Fatal(err)
		}
		s, err := dc.(driver.ConnPrepareContext).PrepareContext(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		return s.Close()
	})
	if m.begun != 3 || m.ended != 3 || len(ops.ops) != before {
		t.Errorf("begun %d times, ended %d", m.begun, m.ended)
	}
	if _, err := c.ExecContext(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); m.begun != 4 || m.ended != 4 || !op.BytesKnown {
		t.Errorf("begun %d times, ended %d: %+v", m.begun, m.ended, op)
	}
}

func TestWhatPassesForTwoAtOnceIsNotKnown(t *testing.T) {
	f := &fake{has: everything, rows: func(string) (driver.Rows, error) { return &fakeRows{left: 2}, nil }}
	var ops operations
	db, m := metered(t, &profiler.Profiler{Sinks: []profiler.Sink{&ops}}, f)
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rows, err := c.QueryContext(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); op.BytesKnown || op.Sent != 0 || op.Turns != 0 {
		t.Errorf("the second: %+v", op)
	}
	rows.Close()
	if op := ops.last(t); op.BytesKnown || op.Sent != 0 || op.Received != 0 {
		t.Errorf("the first: %+v", op)
	}
	if _, err := c.ExecContext(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); !op.BytesKnown || m.begun != 2 || m.ended != 2 {
		t.Errorf("the one after them: %+v", op)
	}
	m.silent = true // the driver has a goroutine that reads ahead
	if _, err := c.ExecContext(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); op.BytesKnown || op.Sent != 0 {
		t.Errorf("an answer that nobody saw: %+v", op)
	}
}

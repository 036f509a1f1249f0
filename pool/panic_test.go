package pool

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// panics calls f and reports whether it panicked with the driver's own value.
func panics(f func()) (got bool) {
	defer func() { got = recover() == "driver" }()
	f()
	return false
}

// A driver that panics while it connects leaves no create that goes on for ever.
func TestACreateThatPanicsHasEnded(t *testing.T) {
	seen := new(counter)
	p := &profiler.Profiler{Sinks: []profiler.Sink{seen}}
	db := openFake(t, p, &fake{has: everything, dial: func(context.Context, *fakeConn) error { panic("driver") }})
	if !panics(func() { db.ExecContext(t.Context(), "x") }) {
		t.Error("the driver's panic did not reach the caller")
	}
	e := p.Report().Endpoint("", profiler.RolePool)
	if e == nil || e.Failed != 1 || e.Making != 0 || e.Created != 0 || len(p.Conns()) != 0 || seen.failed.Load() != 1 {
		t.Errorf("report %+v, %d connections listed: want one create that failed", e, len(p.Conns()))
	}
}

// A program that recovers from a driver's panic may go on with its connection: what runs then is counted as before.
func TestAnOperationAfterAPanicIsCounted(t *testing.T) {
	ops := new(operations)
	f := &fake{has: everything}
	panicking := true
	f.exec = func(string) error {
		if panicking {
			panic("driver")
		}
		return nil
	}
	f.rows = func(string) (driver.Rows, error) { f.exec(""); return &fakeRows{left: 1}, nil }
	db, m := metered(t, &profiler.Profiler{Sinks: []profiler.Sink{ops}}, f)
	c, err := db.Conn(t.Context()) // its Close waits for ever for a call that panicked, as it does without connprof
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(){
		"exec": func() { c.ExecContext(t.Context(), "x") },
		"query": func() {
			if rows, err := c.QueryContext(t.Context(), "q"); err == nil {
				rows.Close()
			}
		},
		"statement": func() {
			if st, err := c.PrepareContext(t.Context(), "s"); err == nil {
				defer st.Close()
				st.ExecContext(t.Context())
			}
		},
	} {
		panicking = true
		if !panics(run) {
			t.Errorf("%s: the driver's panic did not reach the caller", name)
		}
		panicking = false
		before := len(ops.ops)
		run()
		run()
		for _, op := range ops.ops[before:] {
			if !op.BytesKnown {
				t.Errorf("%s after a panic: bytes unknown of %+v", name, op)
			}
		}
	}
	if m.running || m.begun != m.ended {
		t.Errorf("the wire is counted still: begun %d times, ended %d", m.begun, m.ended)
	}
}

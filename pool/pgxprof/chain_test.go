package pgxprof

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// tracesAll has every interface of a tracer, and notes each call with what it was given and whether the context is the one that it returned.
type tracesAll struct {
	mu    sync.Mutex
	calls []string
}

type tracesKey struct{}

func (a *tracesAll) note(ctx context.Context, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	call := fmt.Sprintf(format, args...)
	if v := ctx.Value(tracesKey{}); v != nil {
		call += fmt.Sprint(" in ", v)
	}
	a.calls = append(a.calls, call)
}

func (a *tracesAll) begin(ctx context.Context, what, format string, args ...any) context.Context {
	a.note(ctx, what+" "+format, args...)
	return context.WithValue(ctx, tracesKey{}, what)
}

func (a *tracesAll) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return a.begin(ctx, "query", "%s %v", d.SQL, d.Args)
}

func (a *tracesAll) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	a.note(ctx, "query end %v %v", d.CommandTag, d.Err)
}

func (a *tracesAll) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	return a.begin(ctx, "batch", "%d", d.Batch.Len())
}

func (a *tracesAll) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	a.note(ctx, "batch query %s %v", d.SQL, d.Err)
}

func (a *tracesAll) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	a.note(ctx, "batch end %v", d.Err)
}

func (a *tracesAll) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromStartData) context.Context {
	return a.begin(ctx, "copy", "%v %v", d.TableName, d.ColumnNames)
}

func (a *tracesAll) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	a.note(ctx, "copy end %v %v", d.CommandTag, d.Err)
}

func (a *tracesAll) TracePrepareStart(ctx context.Context, _ *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	return a.begin(ctx, "prepare", "%s %s", d.Name, d.SQL)
}

func (a *tracesAll) TracePrepareEnd(ctx context.Context, _ *pgx.Conn, d pgx.TracePrepareEndData) {
	a.note(ctx, "prepare end %v %v", d.AlreadyPrepared, d.Err)
}

func (a *tracesAll) TraceConnectStart(ctx context.Context, d pgx.TraceConnectStartData) context.Context {
	return a.begin(ctx, "connect", "%s", d.ConnConfig.User)
}

func (a *tracesAll) TraceConnectEnd(ctx context.Context, d pgx.TraceConnectEndData) {
	a.note(ctx, "connect end %v", d.Err)
}

func (a *tracesAll) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return a.begin(ctx, "acquire", "")
}

func (a *tracesAll) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, d pgxpool.TraceAcquireEndData) {
	a.note(ctx, "acquire end %v %v", d.Conn != nil, d.Err)
}

func (a *tracesAll) TraceRelease(_ *pgxpool.Pool, d pgxpool.TraceReleaseData) {
	a.note(context.Background(), "release %v", d.Conn != nil)
}

// whatever does all that a tracer is told about, failures included.
func whatever(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	ctx := t.Context()
	db.Exec(ctx, "CREATE TEMPORARY TABLE t (n int)")
	db.Exec(ctx, "SELECT $1::int", 1)
	db.Exec(ctx, "SELECT nonsense")
	var n int
	db.QueryRow(ctx, "SELECT $1::int + 1", pgx.QueryExecModeDescribeExec, 1).Scan(&n)
	rows, err := db.Query(ctx, "SELECT generate_series(1, 3)")
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	rows.Close()
	b := new(pgx.Batch)
	b.Queue("SELECT 1")
	b.Queue("SELECT $1::int", "no number")
	db.SendBatch(ctx, b).Close()
	b = new(pgx.Batch)
	b.Queue("SELECT 1")
	b.Queue("SELECT 2")
	db.SendBatch(ctx, b).Close()
	db.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}, {2}}))
	db.CopyFrom(ctx, pgx.Identifier{"nosuchtable"}, []string{"n"}, pgx.CopyFromRows(nil))
	c, err := db.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Conn().Prepare(ctx, "named", "SELECT 3")
	c.Conn().Prepare(ctx, "named", "SELECT 3")
	c.Exec(ctx, "named")
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx.Rollback(ctx)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	c.Exec(ended, "SELECT 4")
	db.Acquire(ended)
	c.Release()
}

func TestATracerIsCalledAsItIsWithoutUs(t *testing.T) {
	s := postgrestest.Start(t)
	run := func(p *profiler.Profiler) []string {
		own := new(tracesAll)
		cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
		cfg.MaxConns = 1
		cfg.ConnConfig.Tracer = own
		cfg = Instrument(p, cfg)
		db, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		whatever(t, db)
		db.Close()
		return own.calls
	}
	bare, profiled := run(nil), run(new(profiler.Profiler))
	if len(bare) < 60 || !slices.Equal(bare, profiled) {
		for i := range max(len(bare), len(profiled)) {
			var b, p string
			if i < len(bare) {
				b = bare[i]
			}
			if i < len(profiled) {
				p = profiled[i]
			}
			if b != p {
				t.Errorf("call %d: bare %q, profiled %q", i, b, p)
			}
		}
		t.Errorf("%d calls bare, %d profiled", len(bare), len(profiled))
	}
}

// At the end of a query the span of the program's tracer is still open: ours comes first, at the start and at the end.
func TestOurTracerComesFirst(t *testing.T) {
	s := postgrestest.Start(t)
	own := new(tracesAll)
	p := &profiler.Profiler{Sinks: []profiler.Sink{sinkFunc(func(ctx context.Context, e profiler.Event) {
		if e.Kind == profiler.KindFirstResponse || e.Kind == profiler.KindOperation {
			own.note(ctx, "%s", e.Kind)
		}
	})}}
	cfg := s.Config(postgrestest.Plain)
	cfg.Tracer = own
	conn, _ := connect(t, p, cfg)
	own.calls = nil
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	want := []string{"query SELECT 1 []", "first_response in query", "operation in query", "query end SELECT 1 <nil> in query"}
	if !slices.Equal(own.calls, want) {
		t.Errorf("calls %q, want %q", own.calls, want)
	}
}

type sinkFunc func(context.Context, profiler.Event)

func (f sinkFunc) Record(ctx context.Context, e profiler.Event) { f(ctx, e) }

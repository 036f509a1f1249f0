package pgxprof

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// deep is a context with as many values as a request's usually has.
func deep(ctx context.Context) context.Context {
	type key int
	for i := range 12 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	return ctx
}

// traced is a connection and its tracer, nil where none is.
func traced(tb testing.TB, p *profiler.Profiler) (pgx.QueryTracer, *pgx.Conn) {
	s := postgrestest.Start(tb)
	cfg := InstrumentConn(p, s.Config(postgrestest.Plain))
	conn, err := pgx.ConnectConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return cfg.Tracer, conn
}

func oneQuery(ctx context.Context, t pgx.QueryTracer, conn *pgx.Conn) {
	if t != nil {
		ctx = t.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: "SELECT 1"})
		t.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{})
	}
}

// declines is a Sink as a tracer of spans is for a request that is not sampled.
type declines struct{}

func (declines) Record(context.Context, profiler.Event)                            {}
func (declines) Wants(context.Context, profiler.Kind, *profiler.Conn, uint64) bool { return false }

var profilers = []struct {
	name string
	p    *profiler.Profiler
}{
	{"off", nil},
	{"on", new(profiler.Profiler)},
	{"unsampled", &profiler.Profiler{Sinks: []profiler.Sink{declines{}}}},
}

// What a query costs more than without the profiler: the tracer's two calls. One that goes over the wire pays for the reading of a clock more,
// which examples/overhead shows.
func BenchmarkQuery(b *testing.B) {
	for _, bb := range profilers {
		b.Run(bb.name, func(b *testing.B) {
			t, conn := traced(b, bb.p)
			ctx := deep(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				oneQuery(ctx, t, conn)
			}
		})
	}
}

func TestBoundsOfAQuerysAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	ctx := deep(t.Context())
	for _, tt := range profilers {
		tr, conn := traced(t, tt.p)
		if n := testing.AllocsPerRun(1000, func() { oneQuery(ctx, tr, conn) }); n != 0 {
			t.Errorf("%s: %v allocations a query, want none", tt.name, n)
		}
		bare, bareConn := traced(t, nil)
		if bare != nil {
			t.Fatal("a nil Profiler has a tracer")
		}
		exec := func(c *pgx.Conn) float64 {
			return testing.AllocsPerRun(100, func() {
				if _, err := c.Exec(ctx, "SELECT 1"); err != nil {
					t.Fatal(err)
				}
			})
		}
		if with, without := exec(conn), exec(bareConn); with > without {
			t.Errorf("%s: %v allocations for an Exec on the wire, %v without", tt.name, with, without)
		}
	}
}

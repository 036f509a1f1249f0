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

func traced(tb testing.TB) (*tracer, *pgx.Conn) {
	s := postgrestest.Start(tb)
	cfg := InstrumentConn(new(profiler.Profiler), s.Config(postgrestest.Plain))
	conn, err := pgx.ConnectConfig(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return cfg.Tracer.(*tracer), conn
}

func oneQuery(ctx context.Context, t *tracer, conn *pgx.Conn) {
	ctx = t.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: "SELECT 1"})
	t.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{})
}

// What a query costs more than without the profiler: the tracer's two calls.
func BenchmarkQuery(b *testing.B) {
	t, conn := traced(b)
	ctx := deep(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		oneQuery(ctx, t, conn)
	}
}

func TestBoundsOfAQuerysAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("allocations are counted without the race detector")
	}
	tr, conn := traced(t)
	ctx := deep(t.Context())
	if n := testing.AllocsPerRun(1000, func() { oneQuery(ctx, tr, conn) }); n != 0 {
		t.Errorf("%v allocations a query, want none", n)
	}
}

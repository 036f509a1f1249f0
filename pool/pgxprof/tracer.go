package pgxprof

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/profiler"
)

// tracer takes the place of a configuration's one tracer, and passes on to that what it asks for: each of the optional interfaces that it
// implements. pgx does the same with or without any of them.
type tracer struct {
	hooks   *hooks
	callers callers                       // of a pool whose configuration is no pool's, but for its connections
	begun   atomic.Pointer[profiler.Conn] // the create of the next connect, if it has begun already

	// The program's tracer, by its interfaces; nil where it hasn't one.
	query    pgx.QueryTracer
	batch    pgx.BatchTracer
	copyFrom pgx.CopyFromTracer
	prepare  pgx.PrepareTracer
	connect  pgx.ConnectTracer
	acquire  pgxpool.AcquireTracer
	release  pgxpool.ReleaseTracer
}

var (
	_ pgx.QueryTracer       = (*tracer)(nil)
	_ pgx.BatchTracer       = (*tracer)(nil)
	_ pgx.CopyFromTracer    = (*tracer)(nil)
	_ pgx.PrepareTracer     = (*tracer)(nil)
	_ pgx.ConnectTracer     = (*tracer)(nil)
	_ pgxpool.AcquireTracer = (*tracer)(nil)
	_ pgxpool.ReleaseTracer = (*tracer)(nil)
)

func newTracer(h *hooks) *tracer {
	t := &tracer{hooks: h, query: h.tracer}
	t.batch, _ = h.tracer.(pgx.BatchTracer)
	t.copyFrom, _ = h.tracer.(pgx.CopyFromTracer)
	t.prepare, _ = h.tracer.(pgx.PrepareTracer)
	t.connect, _ = h.tracer.(pgx.ConnectTracer)
	t.acquire, _ = h.tracer.(pgxpool.AcquireTracer)
	t.release, _ = h.tracer.(pgxpool.ReleaseTracer)
	return t
}

func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	memberOf(conn).begin(ctx, conn, kindOf(data.SQL), data.SQL, data.Args)
	if t.query != nil {
		ctx = t.query.TraceQueryStart(ctx, conn, data)
	}
	return ctx
}

func (t *tracer) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	memberOf(conn).end(ctx, conn, profiler.OpQuery, data.Err)
	if t.query != nil {
		t.query.TraceQueryEnd(ctx, conn, data)
	}
}

func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	memberOf(conn).begin(ctx, conn, profiler.OpBatch, "", nil)
	if t.batch != nil {
		ctx = t.batch.TraceBatchStart(ctx, conn, data)
	}
	return ctx
}

func (t *tracer) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	if t.batch != nil {
		t.batch.TraceBatchQuery(ctx, conn, data)
	}
}

func (t *tracer) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	memberOf(conn).end(ctx, conn, profiler.OpBatch, data.Err)
	if t.batch != nil {
		t.batch.TraceBatchEnd(ctx, conn, data)
	}
}

func (t *tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	memberOf(conn).begin(ctx, conn, profiler.OpCopy, "", nil)
	if t.copyFrom != nil {
		ctx = t.copyFrom.TraceCopyFromStart(ctx, conn, data)
	}
	return ctx
}

func (t *tracer) TraceCopyFromEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceCopyFromEndData) {
	memberOf(conn).end(ctx, conn, profiler.OpCopy, data.Err)
	if t.copyFrom != nil {
		t.copyFrom.TraceCopyFromEnd(ctx, conn, data)
	}
}

func (t *tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	memberOf(conn).prepare(ctx, conn, data)
	if t.prepare != nil {
		ctx = t.prepare.TracePrepareStart(ctx, conn, data)
	}
	return ctx
}

func (t *tracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	memberOf(conn).prepared(ctx, conn, data)
	if t.prepare != nil {
		t.prepare.TracePrepareEnd(ctx, conn, data)
	}
}

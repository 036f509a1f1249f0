package oteltrace_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// A caller who got no connection has a span for its wait, in error, and none for a query.
func TestAWaitInVainIsASpanInError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		time.Sleep(ms)
		asked := profiler.Now()
		time.Sleep(100 * ms)
		r.p.WaitFailed(ctx, shop, asked, profiler.Now(), context.DeadlineExceeded)
		r.p.WaitFailed(ctx, shop, profiler.Now(), profiler.Now(), fmt.Errorf("closed pool, secret"))
		span.End()
		spans := r.ended(t)
		waits := spans["wait_for_connection"]
		require.Len(t, waits, 2)
		require.Len(t, r.spans.Ended(), 3)
		w, parent := waits[0], spans["GET /"][0]
		require.Equal(t, parent.SpanContext().SpanID(), w.Parent().SpanID())
		require.Equal(t, trace.SpanKindInternal, w.SpanKind())
		require.Equal(t, int64(ms), w.StartTime().UnixNano()-parent.StartTime().UnixNano())
		require.Equal(t, int64(100*ms), w.EndTime().UnixNano()-w.StartTime().UnixNano())
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "timeout"}, w.Status())
		a := attributesOf(w)
		require.Equal(t, "timeout", a["error.type"])
		require.Equal(t, "db.internal", a["server.address"])
		require.Equal(t, "orders", a["db.client.connection.pool.name"])
		require.Equal(t, 0.1, a["connprof.wait"])
		require.Equal(t, "error", waits[1].Status().Description)
	})
}

func TestAWaitInVainIsSilentWithoutASampledSpan(t *testing.T) {
	r := newRig(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	ctx, span := r.tracer.Start(context.Background(), "GET /")
	r.p.WaitFailed(ctx, shop, profiler.Now(), 0, context.Canceled)
	span.End()
	r.p.WaitFailed(context.Background(), shop, profiler.Now(), 0, context.Canceled)
	require.Empty(t, r.spans.Ended())

	r = newRig()
	r.p.WaitFailed(context.Background(), shop, profiler.Now(), 0, context.Canceled) // a root would tell nobody anything
	require.Empty(t, r.spans.Ended())
	r.sink.Queries = oteltrace.QueryAttributes // waits have no span then
	ctx, span = r.tracer.Start(context.Background(), "GET /")
	r.p.WaitFailed(ctx, shop, profiler.Now(), 0, context.Canceled)
	span.End()
	require.Len(t, r.spans.Ended(), 1)
}

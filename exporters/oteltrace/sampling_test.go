package oteltrace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// remote is a context with the span of another process above it.
func remote(ctx context.Context, flags trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags,
	}))
}

func TestNothingIsBuiltUnderAnUnsampledSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(sdktrace.WithSampler(sdktrace.AlwaysSample())) // would sample what it is asked for
		ctx := remote(context.Background(), 0)
		query(ctx, r.pooled(ctx, plain...), ms)
		marked := profiler.Asked(ctx)
		time.Sleep(5 * ms)
		query(marked, r.pooled(noCaller, plain...), ms) // in the background, for a caller that is not sampled
		r.sink.Flush()
		require.Empty(t, r.spans.Started())
	})
}

func TestASampledQueryHasNoLinkToAnUnsampledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx := remote(context.Background(), 0)
		c := r.pooled(ctx, secured...)
		query(remote(context.Background(), trace.FlagsSampled), c, ms)
		spans := r.spans.Ended()
		require.Len(t, spans, 1)
		require.Empty(t, spans[0].Links())
		require.Equal(t, trace.SpanID{2}, spans[0].Parent().SpanID())
		require.Equal(t, 0.008, attributesOf(spans[0])["connprof.connection.tls.duration"]) // said all the same
	})
}

// rig.ended checks the links and the parents.
func TestRatioSamplingLeavesNoDanglingLink(t *testing.T) {
	r := newRig(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.25))))
	r.sink.MaxConnectionTraces = -1
	linked, queries := 0, 0
	for range 500 {
		ctx, span := r.tracer.Start(context.Background(), "GET /1")
		caller := r.pooled(ctx, step{profiler.Connect, 0})
		query(ctx, caller, 0)
		span.End()
		background := r.pooled(noCaller, step{profiler.Connect, 0})
		ctx, span = r.tracer.Start(context.Background(), "GET /2")
		query(ctx, background, 0)
		query(ctx, caller, 0)
		span.End()
	}
	spans := r.ended(t)
	for _, s := range spans["SELECT cart"] {
		queries++
		linked += len(s.Links())
	}
	if n := len(spans["GET /1"]) + 2*len(spans["GET /2"]); queries != n {
		t.Errorf("%d query spans under spans of %d queries", queries, n)
	}
	if linked == 0 || linked == queries {
		t.Errorf("%d of %d query spans have a link", linked, queries)
	}
}

func TestParentOnlyLeavesOutRoots(t *testing.T) {
	r := newRig()
	r.sink.ParentOnly = true
	c := r.pooled(context.Background())
	query(context.Background(), c, 0)
	ctx, span := r.tracer.Start(context.Background(), "GET /")
	query(ctx, c, 0)
	span.End()
	spans := r.ended(t)
	require.Len(t, spans["SELECT cart"], 1)
	require.Len(t, spans["connection_setup db.internal:3306"], 1)
}

func TestTheGlobalProviderIsLookedUpAtUse(t *testing.T) {
	p := profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(nil)}}
	defer otel.SetTracerProvider(otel.GetTracerProvider())
	otel.SetTracerProvider(noop.NewTracerProvider())
	c := p.NewConn(shop, profiler.RolePool)
	c.Ready(context.Background())
	query(context.Background(), c, 0) // no SDK yet
	for range 2 {
		spans := tracetest.NewSpanRecorder()
		otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
		query(context.Background(), c, 0)
		require.Len(t, spans.Ended(), 1)
		require.Empty(t, spans.Ended()[0].Links(), "the connection's span was never recorded")
		require.NotEmpty(t, spans.Ended()[0].InstrumentationScope().SchemaURL)
	}
}

// later is a provider that delegates once its SDK is there.
type later struct {
	trace.TracerProvider
	mu    sync.Mutex
	asked int
	next  trace.TracerProvider
}

type laterTracer struct {
	trace.Tracer
	l *later
}

func (l *later) Tracer(string, ...trace.TracerOption) trace.Tracer { return laterTracer{l: l} }

func (t laterTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.asked++
	return t.l.next.Tracer("").Start(ctx, name, opts...)
}

func TestAProviderWithoutAnSDKIsAskedForRootsOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &later{next: noop.NewTracerProvider()}
		p := profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(l)}}
		c := p.NewConn(shop, profiler.RolePool)
		c.Ready(context.Background())
		for range 100 {
			query(context.Background(), c, 10*ms) // 20 ms each
		}
		if l.asked < 2 || l.asked > 4 {
			t.Errorf("asked %d times in 2 s", l.asked)
		}
		spans := tracetest.NewSpanRecorder()
		l.next = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		time.Sleep(time.Second)
		query(context.Background(), c, ms)
		query(context.Background(), c, ms)
		require.Len(t, spans.Ended(), 2)
	})
}

package oteltrace_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// keep is a Sink that keeps what it gets.
type keep struct{ events []profiler.Event }

func (k *keep) Record(_ context.Context, e profiler.Event) { k.events = append(k.events, e) }

// warm returns the two events of a reused query on a TLS connection whose create s has seen under ctx.
func warm(s *oteltrace.Sink, ctx context.Context) (first, end profiler.Event) {
	var k keep
	p := profiler.Profiler{Sinks: []profiler.Sink{s, &k}}
	r := rig{p: profiler.Profiler{Sinks: p.Sinks}}
	c := r.pooled(ctx, secured...)
	query(ctx, c, 0)
	query(ctx, c, 0)
	return k.events[len(k.events)-2], k.events[len(k.events)-1]
}

// discard lets the SDK do all but export.
type discard struct{ sdktrace.SpanProcessor }

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}

func provider(s sdktrace.Sampler) trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(s), sdktrace.WithSpanProcessor(discard{}))
}

type benchmark struct {
	name string
	tp   trace.TracerProvider
	span bool // the caller has one
	only bool // Sink.ParentOnly
	free bool // must not allocate
}

func benchmarks() []benchmark {
	return []benchmark{
		{"unsampled/NeverSample", provider(sdktrace.NeverSample()), true, false, true},
		{"unsampled/NoSpan-ParentOnly", provider(sdktrace.AlwaysSample()), false, true, true},
		{"unsampled/NoSpan-NoSDK", noop.NewTracerProvider(), false, false, true},
		{"unsampled/NoSpan-NeverSample", provider(sdktrace.NeverSample()), false, false, false},
		{"sampled/Child", provider(sdktrace.AlwaysSample()), true, false, false},
		{"sampled/Root", provider(sdktrace.AlwaysSample()), false, false, false},
	}
}

func (bm benchmark) setup() (s *oteltrace.Sink, ctx context.Context, first, end profiler.Event) {
	s = oteltrace.New(bm.tp)
	s.ParentOnly = bm.only
	ctx = context.Background()
	if bm.span {
		ctx, _ = bm.tp.Tracer("program").Start(ctx, "GET /")
	}
	first, end = warm(s, ctx)
	return s, ctx, first, end
}

type none struct{}

//go:noinline
func (none) Record(context.Context, profiler.Event) {}

// What the Sink costs a reused query: both of its events. The first line is what handing over two events costs.
func BenchmarkQuery(b *testing.B) {
	b.Run("nothing", func(b *testing.B) {
		_, ctx, first, end := benchmarks()[0].setup()
		for b.Loop() {
			none{}.Record(ctx, first)
			none{}.Record(ctx, end)
		}
	})
	for _, bm := range benchmarks() {
		b.Run(bm.name, func(b *testing.B) {
			s, ctx, first, end := bm.setup()
			b.ReportAllocs()
			for b.Loop() {
				s.Record(ctx, first)
				s.Record(ctx, end)
			}
		})
	}
}

// What the Sink costs a reused query that it declines, as a Profiler asks it: at its first response and at its end, under a context twelve
// values deep. (BenchmarkQuery hands the events over without asking.)
func BenchmarkDeclined(b *testing.B) {
	type depth int
	for _, bm := range benchmarks() {
		if !bm.free || bm.name == "unsampled/NoSpan-NoSDK" {
			continue
		}
		b.Run(bm.name, func(b *testing.B) {
			s, ctx, first, _ := bm.setup()
			for i := range depth(12) {
				ctx = context.WithValue(ctx, i, i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if s.Wants(ctx, profiler.KindFirstResponse, first.Conn, 2) || s.Wants(ctx, profiler.KindOperation, first.Conn, 2) {
					b.Fatal("wanted")
				}
			}
		})
	}
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			profiler.Now()
		}
	})
}

// What OpenTelemetry itself takes for a span like sampled/Child's, made by the plainest of code: as many attributes, a link, two times.
func BenchmarkOpenTelemetryAlone(b *testing.B) {
	tp := provider(sdktrace.AlwaysSample())
	tracer := tp.Tracer("program")
	ctx, parent := tracer.Start(context.Background(), "GET /")
	_, end := warm(oteltrace.New(tp), ctx)
	sc, shop := parent.SpanContext(), "shop"
	b.ReportAllocs()
	for b.Loop() {
		_, span := tracer.Start(ctx, "query "+shop, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(end.Op.Start),
			trace.WithLinks(trace.Link{SpanContext: sc}), trace.WithAttributes(
				attribute.String("a", shop), attribute.String("b", shop), attribute.String("c", shop), attribute.String("d", shop),
				attribute.String("e", shop), attribute.String("f", shop), attribute.Int("g", 1), attribute.Int("h", 2), attribute.Int("i", 3),
				attribute.Bool("j", true), attribute.Float64("k", 1), attribute.Float64("l", 2), attribute.Float64("m", 3), attribute.Float64("n", 4),
				attribute.String("o", shop), attribute.String("p", shop),
			))
		span.End(trace.WithTimestamp(end.Op.End))
	}
}

// What a new connection costs: a root with six phases.
func BenchmarkConnection(b *testing.B) {
	s := oteltrace.New(provider(sdktrace.AlwaysSample()))
	s.MaxConnectionTraces = -1
	var k keep
	r := rig{p: profiler.Profiler{Sinks: []profiler.Sink{&k}}}
	r.pooled(context.Background(), secured...)
	b.ReportAllocs()
	for b.Loop() {
		s.Record(context.Background(), k.events[0])
	}
}

func TestAnUnsampledQueryAllocatesNothing(t *testing.T) {
	for _, bm := range benchmarks() {
		if !bm.free {
			continue
		}
		s, ctx, first, end := bm.setup()
		if n := testing.AllocsPerRun(1000, func() { s.Record(ctx, first); s.Record(ctx, end) }); n != 0 {
			t.Errorf("%s: %g allocations", bm.name, n)
		}
	}
}

func TestTheBenchmarksCompareLikeWithLike(t *testing.T) {
	r := newRig()
	ctx, span := r.tracer.Start(context.Background(), "GET /")
	c := r.pooled(ctx, secured...)
	query(ctx, c, 0)
	query(ctx, c, 0)
	span.End()
	s := r.ended(t)["SELECT cart"][1]
	if n := len(s.Attributes()); n != 16 || len(s.Links()) != 1 {
		t.Errorf("a reused query has %d attributes and %d links", n, len(s.Links()))
	}
}

package oteltrace

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// scopeName is the instrumentation scope of all spans.
const scopeName = "github.com/connprof/connprof/exporters/oteltrace"

// inertFor is how long a provider without an SDK behind it is not asked for roots again.
const inertFor = time.Second

// A binding is a provider and the tracer it gave. A provider that isn't an SDK gives roots without a trace ID; as building a span for it
// costs as much as for one that records, it is left alone for a while then. It is asked again at once when the global provider is replaced,
// and every inertFor, because a provider may delegate to another one that comes later.
type binding struct {
	tp         trace.TracerProvider
	comparable bool
	tracer     trace.Tracer
	inert      atomic.Int64 // Instant until which no root is asked for, 0 for a provider that gives some
}

func (s *Sink) bind() *binding {
	b := s.bound.Load()
	if s.tp != nil {
		if b == nil {
			b = newBinding(s.tp)
			s.bound.Store(b)
		}
		return b
	}
	tp := otel.GetTracerProvider()
	if b != nil && b.comparable && b.tp == tp {
		return b
	}
	b = newBinding(tp)
	s.bound.Store(b)
	return b
}

func newBinding(tp trace.TracerProvider) *binding {
	return &binding{
		tp: tp, comparable: reflect.ValueOf(tp).Comparable(),
		tracer: tp.Tracer(scopeName, trace.WithSchemaURL(schemaURL)),
	}
}

// asleep says that a root started at the time at would come to nothing.
func (b *binding) asleep(at time.Time) bool {
	until := b.inert.Load()
	return until != 0 && int64(profiler.InstantOf(at)) < until
}

// start starts a span under p. It returns nil for a span that nobody records.
func (b *binding) start(p parent, at time.Time, name string, opts []trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := b.tracer.Start(p.ctx, name, opts...)
	if p.kind == noParent {
		switch valid := span.SpanContext().IsValid(); {
		case !valid:
			b.inert.Store(int64(profiler.InstantOf(at).Add(inertFor)))
		case b.inert.Load() != 0:
			b.inert.Store(0)
		}
	}
	if !span.IsRecording() {
		return nil, nil
	}
	return ctx, span
}

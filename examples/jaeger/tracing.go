package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// serviceName is what Jaeger lists the traces under.
const serviceName = "shop"

// tracing is the SDK as a program sets it up, and a count of what it sent. The global provider stays unset: the embedded MongoDB server
// would fill it with spans of its own.
type tracing struct {
	provider *sdktrace.TracerProvider
	sent     *sent
}

func newTracing(ctx context.Context, otlp string) (*tracing, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(otlp), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	s := &sent{SpanExporter: exporter, spans: make(map[string]int)}
	return &tracing{sent: s, provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(s, sdktrace.WithBatchTimeout(time.Second)),
		sdktrace.WithResource(resource.NewWithAttributes(semconv.SchemaURL, semconv.ServiceName(serviceName))),
	)}, nil
}

// flush returns when all spans that have ended are at Jaeger.
func (t *tracing) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := t.provider.ForceFlush(ctx); err != nil {
		return fmt.Errorf("otlp: send spans: %w", err)
	}
	return t.sent.failure()
}

func (t *tracing) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}

// sent counts the spans of each trace that an exporter has delivered.
type sent struct {
	sdktrace.SpanExporter

	mu    sync.Mutex
	spans map[string]int // mu: by trace ID
	err   error          // mu: the first
}

var _ sdktrace.SpanExporter = (*sent)(nil)

func (s *sent) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("otlp: send spans: %w", err)
	}
	for _, span := range spans {
		s.spans[span.SpanContext().TraceID().String()]++
	}
	return err
}

func (s *sent) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// of is how many spans of the trace were sent.
func (s *sent) of(traceID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans[traceID]
}

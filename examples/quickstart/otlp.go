package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// serviceName is what the traces are found by.
const serviceName = "connprof-quickstart"

// sendSpans runs one cold and two warm queries of each variant, each under a span of its own, and sends what connprof made of them.
//
// The tracer provider is this function's own. The global one must stay unset: the embedded MongoDB server would fill it with its spans.
func sendSpans(ctx context.Context, collector string, timeout time.Duration, variants []*variant) error {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(collector), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithTimeout(timeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}))
	if err != nil {
		return fmt.Errorf("quickstart: otlp: %w", err)
	}
	tp := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(time.Hour)), // sent by the flush below, whose error we see
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", serviceName))),
	)
	for _, v := range variants {
		err = errors.Join(err, traceQueries(ctx, tp, timeout, v))
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if ferr := tp.ForceFlush(bounded); ferr != nil {
		err = errors.Join(err, fmt.Errorf("quickstart: otlp: send spans to %s: %s: check that a collector listens there for OTLP over gRPC",
			collector, oneLine(ferr.Error())))
	}
	_ = tp.Shutdown(bounded) // nothing is left to be sent
	return err
}

// traceQueries lets one client run three queries.
func traceQueries(ctx context.Context, tp trace.TracerProvider, timeout time.Duration, v *variant) error {
	sink := oteltrace.New(tp)
	p := &profiler.Profiler{Sinks: []profiler.Sink{sink}}
	tracer := tp.Tracer("github.com/connprof/connprof/examples/quickstart")
	c, err := v.open(p)
	if err != nil {
		return fmt.Errorf("quickstart: %s: build the client: %s", v.system, oneLine(err.Error()))
	}
	for i, name := range []string{"cold query", "warm query", "warm query"} {
		start := time.Now()
		err = func() error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx, span := tracer.Start(ctx, fmt.Sprintf("%s (%s)", name, v.name()))
			defer span.End()
			return c.query(ctx, i)
		}()
		if err != nil {
			err = v.failure(p, start, err)
			break
		}
	}
	v.close(c)
	p.Flush()
	sink.Flush()
	return err
}

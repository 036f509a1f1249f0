package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	xsam "github.com/XSAM/otelsql"
	uptrace "github.com/uptrace/opentelemetry-go-extra/otelsql"
	nhat "go.nhat.io/otelsql"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// A database runs the two calls that are measured: a *sql.DB or what wraps one.
type database interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	SetMaxIdleConns(n int)
	SetMaxOpenConns(n int)
	Close() error
}

// A subject is one way to use database/sql on the no-op driver.
type subject struct {
	name string
	open func() database
	// sampled says that its calls run under a span that is sampled.
	sampled bool
}

// ctx is what its calls run under.
func (s subject) ctx() context.Context {
	if s.sampled {
		return deep(trace.FlagsSampled)
	}
	return deep(0)
}

// Production: a tracer that samples nothing and metrics that are kept, which is what most requests pay for.
func production() (trace.TracerProvider, metric.MeterProvider) {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

// Full: every request is traced, and its spans are batched for an exporter that throws them away.
func full() (trace.TracerProvider, metric.MeterProvider) {
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(discard{})),
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

func none() (trace.TracerProvider, metric.MeterProvider) {
	return nooptrace.NewTracerProvider(), noopmetric.NewMeterProvider()
}

// ignores is a Sink that is told everything and does nothing with it.
type ignores struct{}

func (ignores) Record(context.Context, profiler.Event) {}

// declines is a Sink that says beforehand that it wants nothing of operations.
type declines struct{ ignores }

func (declines) Wants(context.Context, profiler.Kind, *profiler.Conn, uint64) bool { return false }

var endpoint = profiler.Endpoint{System: "other_sql", Address: "noop"}

func connprof(p *profiler.Profiler) *sql.DB {
	if p == nil {
		return pool.OpenDB(nil, noop{})
	}
	return pool.OpenDB(p, &pool.Connector{Connector: noop{}, Profiler: p, Endpoint: endpoint})
}

// subjects are in the order of the table, the bare one first.
var subjects = []subject{
	{"database/sql", func() database { return sql.OpenDB(noop{}) }, false},
	{"connprof, nil Profiler", func() database { return connprof(nil) }, false},
	{"connprof", func() database { return connprof(new(profiler.Profiler)) }, false},
	{"connprof, a Sink that declines", func() database {
		return connprof(&profiler.Profiler{Sinks: []profiler.Sink{declines{}}})
	}, false},
	{"connprof, a Sink that is told everything", func() database {
		return connprof(&profiler.Profiler{Sinks: []profiler.Sink{ignores{}}})
	}, false},
	{"connprof, production", func() database {
		tp, _ := production()
		p := &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}}
		otelmetric.New(p)
		return connprof(p)
	}, false},
	{"connprof, metrics alone", func() database {
		p := new(profiler.Profiler)
		otelmetric.New(p)
		return connprof(p)
	}, false},
	{"connprof, pool.Wrap", func() database { return pool.Wrap(connprof(new(profiler.Profiler))) }, false},
	{"uptrace otelsql, no-op", func() database { return openUptrace(none()) }, false},
	{"uptrace otelsql, production", func() database { return openUptrace(production()) }, false},
	{"nhat otelsql, no-op", func() database { return openNhat(none()) }, false},
	{"nhat otelsql, production", func() database { return openNhat(production()) }, false},
	{"XSAM otelsql, no-op", func() database { return openXSAM(none()) }, false},
	{"XSAM otelsql, production", func() database { return openXSAM(production()) }, false},
	{"database/sql and one span", func() database { return openSpanned(full()) }, true},
	{"connprof, sampled", func() database {
		tp, _ := full()
		p := &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}}
		otelmetric.New(p)
		return connprof(p)
	}, true},
	{"uptrace otelsql, sampled", func() database { return openUptrace(full()) }, true},
	{"nhat otelsql, sampled", func() database { return openNhat(full()) }, true},
	{"XSAM otelsql, sampled", func() database { return openXSAM(full()) }, true},
}

func openUptrace(tp trace.TracerProvider, mp metric.MeterProvider) *sql.DB {
	return uptrace.OpenDB(noop{}, uptrace.WithTracerProvider(tp), uptrace.WithMeterProvider(mp))
}

func openNhat(tp trace.TracerProvider, mp metric.MeterProvider) *sql.DB {
	d := nhat.Wrap(noop{}, nhat.TraceAll(), nhat.WithTracerProvider(tp), nhat.WithMeterProvider(mp))
	c, err := d.(interface {
		OpenConnector(string) (driver.Connector, error)
	}).OpenConnector("noop")
	if err != nil {
		panic(err)
	}
	return sql.OpenDB(c)
}

func openXSAM(tp trace.TracerProvider, mp metric.MeterProvider) *sql.DB {
	return xsam.OpenDB(noop{}, xsam.WithTracerProvider(tp), xsam.WithMeterProvider(mp),
		xsam.WithAttributes(attribute.String("db.system.name", "other_sql")))
}

// spanned makes one span a call by the plainest of code, with as many attributes as connprof's on this driver, a link and two times: what
// OpenTelemetry itself takes for it.
type spanned struct {
	*sql.DB
	tracer trace.Tracer
	link   trace.Link
}

func openSpanned(tp trace.TracerProvider, _ metric.MeterProvider) database {
	tracer := tp.Tracer("spanned")
	_, span := tracer.Start(deep(trace.FlagsSampled), "connection")
	defer span.End()
	return &spanned{sql.OpenDB(noop{}), tracer, trace.Link{SpanContext: span.SpanContext()}}
}

func (s *spanned) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	defer s.span(ctx)
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *spanned) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	defer s.span(ctx)
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *spanned) span(ctx context.Context) {
	const text = "other_sql"
	now := started
	_, span := s.tracer.Start(ctx, "SELECT", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(now), trace.WithLinks(s.link),
		trace.WithAttributes(
			attribute.String("db.system.name", text), attribute.String("server.address", text), attribute.String("db.query.summary", text),
			attribute.String("db.operation.name", text), attribute.String("id", text), attribute.Bool("reused", true),
			attribute.Int64("index", 2), attribute.Float64("first", 1), attribute.Float64("idle", 1),
		))
	span.End(trace.WithTimestamp(now))
}

var started = time.Now()

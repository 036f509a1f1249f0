package main

import (
	"context"
	"database/sql"
	"database/sql/driver"

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
}

// Production: a tracer that samples nothing and metrics that are kept, which is what most requests pay for.
func production() (trace.TracerProvider, metric.MeterProvider) {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

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
	{"database/sql", func() database { return sql.OpenDB(noop{}) }},
	{"connprof, nil Profiler", func() database { return connprof(nil) }},
	{"connprof", func() database { return connprof(new(profiler.Profiler)) }},
	{"connprof, a Sink that declines", func() database {
		return connprof(&profiler.Profiler{Sinks: []profiler.Sink{declines{}}})
	}},
	{"connprof, a Sink that is told everything", func() database {
		return connprof(&profiler.Profiler{Sinks: []profiler.Sink{ignores{}}})
	}},
	{"connprof, production", func() database {
		tp, _ := production()
		return connprof(&profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}})
	}},
	{"connprof, pool.Wrap", func() database { return pool.Wrap(connprof(new(profiler.Profiler))) }},
	{"uptrace otelsql, no-op", func() database { return openUptrace(none()) }},
	{"uptrace otelsql, production", func() database { return openUptrace(production()) }},
	{"nhat otelsql, no-op", func() database { return openNhat(none()) }},
	{"nhat otelsql, production", func() database { return openNhat(production()) }},
	{"XSAM otelsql, no-op", func() database { return openXSAM(none()) }},
	{"XSAM otelsql, production", func() database { return openXSAM(production()) }},
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

package main

import (
	"context"
	"fmt"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/pool/pgxprof"
	"github.com/connprof/connprof/profiler"
)

// A pgxSubject is one way to use pgx: it prepares a pool's configuration.
type pgxSubject struct {
	name string
	with func(*pgxpool.Config) *pgxpool.Config
}

func profiled(p *profiler.Profiler) func(*pgxpool.Config) *pgxpool.Config {
	return func(cfg *pgxpool.Config) *pgxpool.Config { return pgxprof.Instrument(p, cfg) }
}

func otel(options ...otelpgx.Option) func(*pgxpool.Config) *pgxpool.Config {
	return func(cfg *pgxpool.Config) *pgxpool.Config {
		cfg.ConnConfig.Tracer = otelpgx.NewTracer(options...)
		return cfg
	}
}

// pgxSubjects are in the order of the table, the bare one first.
var pgxSubjects = []pgxSubject{
	{"pgx", func(cfg *pgxpool.Config) *pgxpool.Config { return cfg }},
	{"connprof, nil Profiler", profiled(nil)},
	{"connprof", profiled(new(profiler.Profiler))},
	{"connprof, a Sink that declines", profiled(&profiler.Profiler{Sinks: []profiler.Sink{declines{}}})},
	{"connprof, a Sink that is told everything", profiled(&profiler.Profiler{Sinks: []profiler.Sink{ignores{}}})},
	{"connprof, production", func(cfg *pgxpool.Config) *pgxpool.Config {
		tp, _ := production()
		return pgxprof.Instrument(&profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}}, cfg)
	}},
	{"otelpgx, no-op", func(cfg *pgxpool.Config) *pgxpool.Config {
		tp, mp := none()
		return otel(otelpgx.WithTracerProvider(tp), otelpgx.WithMeterProvider(mp))(cfg)
	}},
	{"otelpgx, production", func(cfg *pgxpool.Config) *pgxpool.Config {
		tp, mp := production()
		return otel(otelpgx.WithTracerProvider(tp), otelpgx.WithMeterProvider(mp))(cfg)
	}},
}

// A pgxCall is what is measured of pgx.
type pgxCall struct {
	name string
	open func(s pgxSubject) (run func() error, end func(), err error)
}

var pgxCalls = []pgxCall{
	{"pgx: Conn.Exec", onConn(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT 1")
		return err
	})},
	{"pgx: Conn.Query + Rows.Close", onConn(func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	})},
	{"pgx: Pool.Exec", func(s pgxSubject) (func() error, func(), error) {
		ctx := deep(0)
		db, err := pgxPool(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		return func() error { _, err := db.Exec(ctx, "SELECT 1"); return err }, db.Close, nil
	}},
	{"pgx: the tracer's two calls for a query, nothing sent", func(s pgxSubject) (func() error, func(), error) {
		ctx := deep(0)
		db, c, end, err := pgxConn(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		tracer := db.Config().ConnConfig.Tracer
		return func() error {
			if tracer != nil {
				tracer.TraceQueryEnd(tracer.TraceQueryStart(ctx, c, pgx.TraceQueryStartData{SQL: "SELECT 1"}), c, pgx.TraceQueryEndData{})
			}
			return nil
		}, end, nil
	}},
}

func pgxPool(ctx context.Context, s pgxSubject) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig("postgres://app@127.0.0.1:5432/app?sslmode=disable&pool_max_conns=1")
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.DialFunc = dialServer
	db, err := pgxpool.NewWithConfig(ctx, s.with(cfg))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return db, nil
}

func pgxConn(ctx context.Context, s pgxSubject) (db *pgxpool.Pool, conn *pgx.Conn, end func(), err error) {
	if db, err = pgxPool(ctx, s); err != nil {
		return nil, nil, nil, err
	}
	c, err := db.Acquire(ctx)
	if err != nil {
		db.Close()
		return nil, nil, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return db, c.Conn(), func() { c.Release(); db.Close() }, nil
}

func onConn(run func(context.Context, *pgx.Conn) error) func(pgxSubject) (func() error, func(), error) {
	return func(s pgxSubject) (func() error, func(), error) {
		ctx := deep(0)
		_, c, end, err := pgxConn(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return run(ctx, c) }, end, nil
	}
}

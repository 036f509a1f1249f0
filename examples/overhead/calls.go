package main

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// A call is what is measured: one use of a database.
type call struct {
	name string
	run  func(ctx context.Context, db database) error
	// fresh says that each call makes its connection and closes it.
	fresh bool
	// goroutines share the pool, each with a connection of its own.
	goroutines int
}

var calls = []call{
	{"QueryContext + Rows.Close", query, false, 1},
	{"ExecContext", exec, false, 1},
	{"Connect + ExecContext + close", exec, true, 1},
	{"QueryContext + Rows.Close, 32 goroutines", query, false, 32},
}

func query(ctx context.Context, db database) error {
	rows, err := db.QueryContext(ctx, "SELECT 1")
	if err != nil {
		return err
	}
	return rows.Close()
}

func exec(ctx context.Context, db database) error {
	_, err := db.ExecContext(ctx, "DO 1")
	return err
}

// prepare gives the pool the limits that the call needs and uses it once.
func (c call) prepare(ctx context.Context, db database) error {
	if c.fresh {
		db.SetMaxIdleConns(-1)
	} else {
		db.SetMaxIdleConns(64)
	}
	return c.run(ctx, db)
}

type depth int

// deep is a context twelve values deep, as those of requests are, under a span with these flags: a tracer has decided whether to sample.
func deep(flags trace.TraceFlags) context.Context {
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
	}))
	for i := range depth(12) {
		ctx = context.WithValue(ctx, i, i)
	}
	return ctx
}

package pgxprof_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/connprof/connprof/pool/pgxprof"
	"github.com/connprof/connprof/profiler"
)

// A pool is profiled by instrumenting its configuration. Here nobody listens, and the report says what to check.
func ExampleInstrument() {
	var p profiler.Profiler
	cfg, err := pgxpool.ParseConfig("postgres://app:secret@127.0.0.1:1/shop?sslmode=disable")
	if err != nil {
		fmt.Println(err)
		return
	}
	db, err := pgxpool.NewWithConfig(context.Background(), pgxprof.Instrument(&p, cfg))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	fmt.Println(db.Ping(context.Background()) != nil)
	f := p.Report().Failures[0]
	fmt.Println(f.Phase, "failed:", f.Advice)
	// Output:
	// true
	// connect failed: nothing listens there: check host, port, and that the server runs
}

// The story of one request: the wait for the pool, the connection it had to open, its query.
func ExampleInstrument_timeline() {
	var p profiler.Profiler
	cfg, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return
	}
	ctx := context.Background()
	db, err := pgxpool.NewWithConfig(ctx, pgxprof.Instrument(&p, cfg))
	if err != nil {
		return
	}
	defer db.Close()
	var tl profiler.Timeline
	if _, err := db.Exec(profiler.WithSink(ctx, &tl), "SELECT 1"); err != nil {
		return // no database here
	}
	tl.WriteTo(os.Stderr)
}

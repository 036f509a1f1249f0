// Quickstart repeats a published experiment: what does TLS cost a database client, and what does pooling save of it? It needs nothing but
// Go. It starts a MySQL server and a server of the MongoDB wire protocol in its own process, each with TLS off and on, and runs real
// drivers against them, profiled by connprof:
//
//	go -C examples run ./quickstart
//
// Each iteration builds a fresh client, runs its first query and closes it again; then one client is reused for as many queries. Run it
// with -help for the flags, among them -rtt for an emulated network and -mysql and -mongo for servers of your own, which it only reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // a part did not run
	exitUsage       = 2   // flags
	exitInterrupted = 130 // as a shell says of SIGINT
)

// config is what the flags say.
type config struct {
	iterations   int
	rtt, timeout time.Duration
	json         bool
	mysql, mongo string
	otlp         string
}

// maxIterations is far more than anyone waits for; every sample is kept.
const maxIterations = 1_000_000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// parse reads the flags. What is wrong with them was already said to stderr when it returns an error.
func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.iterations, "iterations", 200, "fresh clients of each variant, and queries on a reused one")
	flags.DurationVar(&c.rtt, "rtt", 0, "emulate a network with this round trip, such as 10ms, in-process")
	flags.DurationVar(&c.timeout, "timeout", 5*time.Second, "how long one connect or query may take")
	flags.BoolVar(&c.json, "json", false, "print one JSON object instead of the report")
	flags.StringVar(&c.mysql, "mysql", "", "run against the MySQL server of this `DSN` (user:password@tcp(host:3306)/db?tls=true), reading only")
	flags.StringVar(&c.mongo, "mongo", "", "run against the MongoDB of this `URI` (mongodb://host:27017/db), reading only")
	flags.StringVar(&c.otlp, "otlp", "", "send the spans of one cold and two warm queries a variant to the collector at this `host:port` (gRPC, no TLS)")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	fail := func(format string, args ...any) (config, error) {
		err := fmt.Errorf(format, args...)
		fmt.Fprintf(stderr, "quickstart: %v\n", err)
		return c, err
	}
	switch {
	case flags.NArg() > 0:
		return fail("unexpected argument %q: all settings are flags, see -help", flags.Arg(0))
	case c.iterations < 1:
		return fail("-iterations %d: must be at least 1", c.iterations)
	case c.iterations > maxIterations:
		return fail("-iterations %d: must be at most %d", c.iterations, maxIterations)
	case c.rtt < 0:
		return fail("-rtt %v: must not be negative", c.rtt)
	case c.timeout <= 0:
		return fail("-timeout %v: must be more than 0", c.timeout)
	case c.rtt >= c.timeout:
		return fail("-rtt %v: must be less than -timeout, which is %v", c.rtt, c.timeout)
	}
	if c.otlp != "" {
		if _, port, err := net.SplitHostPort(c.otlp); err != nil || port == "" {
			return fail("-otlp %q: must be host:port, such as localhost:4317", c.otlp)
		}
	}
	return c, nil
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return exitUsage
	}
	setup, err := prepare(ctx, c)
	if err != nil {
		fmt.Fprintf(stderr, "quickstart: %v\n", err)
		switch {
		case ctx.Err() != nil:
			return exitInterrupted
		case errors.As(err, new(addressError)):
			return exitUsage
		}
		return exitFailed
	}
	defer setup.stop()

	e := &experiment{variants: setup.variants, iterations: c.iterations, timeout: c.timeout}
	if c.otlp != "" {
		e.trace = func(ctx context.Context) error { return sendSpans(ctx, c.otlp, c.timeout, e.running()) }
	}
	progress := newProgress(stderr)
	e.step, e.begin = progress.step, progress.begin
	err = e.run(ctx)
	progress.done()

	code := exitOK
	switch {
	case ctx.Err() != nil:
		code = exitInterrupted
		fmt.Fprintf(stderr, "quickstart: interrupted; this is what was measured so far: %d of %d iterations\n", e.completed(), c.iterations)
	case err != nil:
		code = exitFailed
		fmt.Fprintln(stderr, err)
	}
	rows := results(e.measured())
	if len(rows) == 0 {
		return code
	}
	if c.json {
		err = writeJSON(stdout, e.completed(), c.rtt, rows)
	} else {
		err = writeText(stdout, page{iterations: e.completed(), asked: c.iterations, rtt: c.rtt, rows: rows, sentTo: e.sent(c.otlp)})
	}
	if err != nil {
		fmt.Fprintf(stderr, "quickstart: write the report: %v\n", err)
		return exitFailed
	}
	return code
}

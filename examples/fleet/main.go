// Command fleet shows how connprof scales past one process: by histograms that merge, and nothing of its own.
//
// Three processes of a small MySQL client, each a different network away from the server, hand their metrics to an OpenTelemetry Collector,
// which exposes them to Prometheus. What the fleet's TLS handshakes take is then asked of Prometheus' own engine, and compared with the
// exact durations, which the processes also kept one by one.
//
//	go -C examples/fleet run . -check
//
// Nothing but Go is needed, nothing leaves loopback. The first run compiles the Collector, which takes minutes. Without -check, what is
// wrong is printed but is no failure; with -keep the Collector goes on until an interrupt, for a look at what it exposes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
)

// A member is one process of the fleet.
type member struct {
	name        string        // service.instance.id
	rtt         time.Duration // to the server and back
	connections int
	delta       bool // sends what was new since the last time, not all since the beginning
	instruments bool // its histograms are the SDK's, made exponential by a view, not otelmetric's
}

var fleet = []member{
	{name: "near", rtt: 4 * time.Millisecond, connections: 300, instruments: true},
	{name: "middle", rtt: 10 * time.Millisecond, connections: 250, delta: true},
	{name: "far", rtt: 25 * time.Millisecond, connections: 120, delta: true},
}

func main() {
	check := flag.Bool("check", false, "exit with 1 if the fleet's numbers are not the exact ones")
	keep := flag.Bool("keep", false, "leave the Collector running until an interrupt")
	as := flag.String("member", "", "be this process of the fleet; the program starts its members itself")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *as != "" {
		err = beMember(ctx, *as, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, *keep)
	}
	switch {
	case errors.Is(err, errWrong): // and printed
		if !*check {
			return
		}
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
	default:
		return
	}
	stop()
	os.Exit(1)
}

// timeout bounds all but the compiling.
const timeout = 5 * time.Minute

func run(ctx context.Context, keep bool) error {
	program, err := buildCollector(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	server, err := embedded.StartMySQL(bounded)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	defer server.Close()
	c, err := startCollector(bounded, program)
	if err != nil {
		return err
	}
	defer c.stop()

	told, err := runMembers(bounded, assignment{Server: server.Addr, RootPEM: server.RootPEM, OTLP: c.otlp})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.log.tail())
	}
	exposed, err := scrape(bounded, c.exposition)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.log.tail())
	}
	r, err := compare(bounded, exposed, told)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.log.tail())
	}
	r.print(os.Stdout)
	if keep {
		fmt.Fprintf(os.Stderr, "the Collector takes OTLP at %s and exposes http://%s/metrics until an interrupt\n", c.otlp, c.exposition)
		<-ctx.Done()
	}
	return r.err()
}

// Jaeger shows connprof's spans in a real Jaeger. A small web service over MySQL and MongoDB answers a handful of requests, one for each
// way in which a connection can make a request slow, and sends its spans to a Jaeger that the program builds and starts:
//
//	go -C examples/jaeger run .          # prints each trace
//	go -C examples/jaeger run . -check   # and holds each against what it must be, span by span and attribute by attribute
//	go -C examples/jaeger run . -keep    # and leaves all running for a look, until Ctrl-C
//
// The first run builds Jaeger, which takes minutes; later ones take seconds. Nothing else is needed: the databases run inside the process,
// behind a network that delays what they say, everything on loopback. README.md explains what one sees.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // a trace is not what it must be, or there is none
	exitUsage       = 2   // flags
	exitInterrupted = 130 // as a shell says of SIGINT
)

// config is what the flags say.
type config struct {
	check, keep, readme bool
	ui, jaeger, otlp    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(realMain(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("jaeger", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&c.check, "check", false, "check the traces; the exit code is not 0 if one is wrong")
	flags.BoolVar(&c.keep, "keep", false, "leave Jaeger and the service running until Ctrl-C")
	flags.BoolVar(&c.readme, "readme", false, "write the traces into README.md, too")
	flags.StringVar(&c.ui, "ui", "", "the `folder` of a built Jaeger UI, which Jaeger's Go module has not")
	flags.StringVar(&c.jaeger, "jaeger", "", "use the Jaeger that runs at this `URL`, such as http://localhost:16686, and build none")
	flags.StringVar(&c.otlp, "otlp", "localhost:4317", "where the Jaeger of -jaeger takes spans (OTLP over gRPC, no TLS), `host:port`")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: all settings are flags, see -help", flags.Arg(0))
	case c.ui != "" && c.jaeger != "":
		err = errors.New("-ui: is for the Jaeger that is started, and -jaeger says that none is")
	}
	if c.ui != "" && err == nil {
		if c.ui, err = filepath.Abs(c.ui); err == nil {
			_, err = os.Stat(filepath.Join(c.ui, "index.html"))
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "jaeger: %v\n", err)
	}
	return c, err
}

// realMain is main without the process around it.
func realMain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return exitUsage
	}
	failures, err := show(ctx, c, stdout, stderr)
	switch {
	case ctx.Err() != nil && !c.keep:
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "jaeger: %v\n", err)
		return exitFailed
	case failures > 0:
		return exitFailed
	}
	return exitOK
}

// show runs all scenes and prints, and checks, what came of them.
func show(ctx context.Context, c config, stdout, stderr io.Writer) (failures int, err error) {
	j := &jaeger{otlp: c.otlp, query: strings.TrimSuffix(c.jaeger, "/"), ui: true}
	if c.jaeger == "" {
		path, err := build(ctx, stderr)
		if err != nil {
			return 0, err
		}
		if j, err = start(ctx, path, c.ui); err != nil {
			return 0, err
		}
		defer j.stop()
	}
	s, err := prepare(ctx, j.otlp)
	if err != nil {
		return 0, err
	}
	defer s.stop()

	p := &page{w: stdout, store: j, check: c.check, checker: newChecker()}
	for _, scene := range scenes {
		if err := p.scene(ctx, s, scene); err != nil {
			return 0, err
		}
	}
	if c.check {
		p.total()
	}
	if c.readme {
		if err := p.writeReadme("README.md"); err != nil {
			return 0, err
		}
	}
	if c.keep {
		fmt.Fprintf(stdout, "\nThe service is at %s, Jaeger at %s; it takes OTLP at %s.\n", s.server.url, j.query, j.otlp)
		if !j.ui {
			fmt.Fprintln(stdout, "This Jaeger was built from its Go module, which has no user interface: -ui names a folder that has one, -jaeger another Jaeger.")
		}
		fmt.Fprintln(stdout, "Ctrl-C ends it.")
		<-ctx.Done()
	}
	return p.failures, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A jaeger takes spans in and tells of traces.
type jaeger struct {
	otlp  string // host:port, OTLP over gRPC
	query string // http://host:port
	ui    bool   // it has a user interface
	stop  func()
}

var _ store = (*jaeger)(nil)

// url is where a trace is shown to people, or to programs if there is nothing for people.
func (j *jaeger) url(traceID string) string {
	if j.ui {
		return j.query + "/trace/" + traceID
	}
	return j.query + "/api/v3/traces/" + traceID
}

// startTimeout is how long Jaeger may take to answer; it takes a fraction of a second on an idle machine.
const startTimeout = 60 * time.Second

// configuration is all of Jaeger that is needed: OTLP in, memory, the query service, all on loopback. Without a batch processor a span is
// stored when its export has succeeded. Jaeger's spans of itself are off: they would go to whoever listens at localhost:4317.
const configuration = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [jaeger_storage_exporter]
  telemetry:
    metrics:
      level: none
    logs:
      level: warn
extensions:
  jaeger_storage:
    backends:
      memory:
        memory:
          max_traces: 10000
  jaeger_query:
    enable_tracing: false
    storage:
      traces: memory
    http:
      endpoint: %[2]s
    grpc:
      endpoint: %[3]s
%[4]sreceivers:
  otlp:
    protocols:
      grpc:
        endpoint: %[1]s
exporters:
  jaeger_storage_exporter:
    trace_storage: memory
`

// start runs the Jaeger at path and returns when it answers. Its ports are free ones, found beforehand, since it can't be asked for any of
// its choosing; they are found again if somebody else was quicker to use one. assets is the folder of a built user interface, "" for none.
func start(ctx context.Context, path, assets string) (*jaeger, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		j, output, err := startOnce(ctx, path, assets)
		if err == nil || attempt == attempts || !strings.Contains(output, "address already in use") {
			return j, err
		}
	}
}

func startOnce(ctx context.Context, path, assets string) (j *jaeger, output string, err error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, "", fmt.Errorf("start Jaeger: %w", err)
	}
	dir, err := os.MkdirTemp("", "connprof-jaeger-")
	if err != nil {
		return nil, "", fmt.Errorf("start Jaeger: %w", err)
	}
	ui := ""
	if assets != "" {
		ui = fmt.Sprintf("    ui:\n      assets_path: %q\n", assets)
	}
	config := filepath.Join(dir, "config.yaml")
	content := fmt.Sprintf(configuration, addresses[0], addresses[1], addresses[2], ui)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return nil, "", errors.Join(fmt.Errorf("start Jaeger: %w", err), os.RemoveAll(dir))
	}
	said := new(lastLines)
	cmd := exec.Command(path, "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	detach(cmd)
	ended, err := run(cmd)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("start Jaeger: %w", err), os.RemoveAll(dir))
	}
	j = &jaeger{otlp: addresses[0], query: "http://" + addresses[1], ui: assets != ""}
	j.stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = os.RemoveAll(dir)
	}
	if err := j.ready(ctx, ended); err != nil {
		j.stop()
		return nil, said.String(), fmt.Errorf("start Jaeger: %w; it said: %s", err, strings.TrimSpace(said.String()))
	}
	return j, "", nil
}

// run starts cmd on a thread that is there until cmd ends (see detach).
func run(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	started, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return done, <-started
}

// ready waits until both ports answer.
func (j *jaeger) ready(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := j.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (j *jaeger) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.query+"/api/v3/services", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", j.otlp)
	if err != nil {
		return err
	}
	return c.Close()
}

// freeAddresses finds n loopback addresses that nobody listens on.
func freeAddresses(n int) (addresses []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

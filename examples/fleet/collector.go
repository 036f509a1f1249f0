package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// In the folder of this module, where the program is run.
const (
	collectorFolder = "collector"
	collectorConfig = "collector.yaml"
)

// buildCollector compiles the Collector into the user's cache, where the next run finds it up to date, and returns its path.
func buildCollector(ctx context.Context) (string, error) {
	if _, err := os.Stat(collectorFolder); err != nil {
		return "", fmt.Errorf("fleet: the Collector's source: run in the folder examples/fleet: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("fleet: %w", err)
	}
	program := filepath.Join(cache, "connprof", "fleet-collector")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: compiling the Collector, which takes minutes the first time")
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, ".")
	build.Dir = collectorFolder
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fleet: compile the Collector: %w\n%s", err, out)
	}
	return program, nil
}

// A collector is a running Collector.
type collector struct {
	otlp, exposition string // where it listens
	log              *log
	stdin            io.Closer
	ended            <-chan error
	cmd              *exec.Cmd
}

// startCollector returns when the Collector takes metrics.
func startCollector(ctx context.Context, program string) (*collector, error) {
	var errs []error
	for range 3 { // a port that was free may be taken before the Collector listens there
		c, err := tryCollector(ctx, program)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func tryCollector(ctx context.Context, program string) (*collector, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	c := &collector{otlp: ports[0], exposition: ports[1], log: newLog("Everything is ready")}
	c.cmd = exec.Command(program, collectorConfig)
	c.cmd.Env = append(os.Environ(), "FLEET_OTLP="+c.otlp, "FLEET_EXPOSITION="+c.exposition)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("fleet: start the Collector: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("fleet: start the Collector: %w", err)
	}
	ended := make(chan error, 1)
	c.ended = ended
	go func() { ended <- c.cmd.Wait() }()
	select {
	case <-c.log.seen:
		return c, nil
	case err := <-ended:
		return nil, fmt.Errorf("fleet: the Collector did not start: %w\n%s", err, c.log.tail())
	case <-ctx.Done():
		_ = c.cmd.Process.Kill()
		<-ended
		return nil, fmt.Errorf("fleet: the Collector did not start: %w\n%s", context.Cause(ctx), c.log.tail())
	}
}

// stop ends the Collector and returns when it has ended.
func (c *collector) stop() {
	_ = c.stdin.Close()
	select {
	case <-c.ended:
	case <-time.After(15 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// freeAddresses finds n ports of loopback on which nobody listens.
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

// A log keeps the end of what is written to it, and closes seen once it contained a text.
type log struct {
	want string
	seen chan struct{}
	once sync.Once
	mu   sync.Mutex
	text []byte // mu
}

const logSize = 16 << 10

func newLog(want string) *log { return &log{want: want, seen: make(chan struct{})} }

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if strings.Contains(string(l.text), l.want) {
		l.once.Do(func() { close(l.seen) })
	}
	if over := len(l.text) - logSize; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(b), nil
}

func (l *log) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	jaegerModule  = "github.com/jaegertracing/jaeger"
	jaegerPackage = jaegerModule + "/cmd/jaeger"
	toolsModule   = "tools" // the folder of the module that requires Jaeger and nothing else
)

// build returns the path of a Jaeger as toolsModule requires it. It is kept in the user's cache folder under its version, so that it is
// built once: that takes minutes, and the download of some 570 modules before it, whose checksums the go command verifies.
func build(ctx context.Context, say io.Writer) (string, error) {
	version, sum, err := required()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build Jaeger: %w", err)
	}
	dir := filepath.Join(cache, "connprof")
	path := filepath.Join(dir, fmt.Sprintf("jaeger-%s-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH, sum))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("build Jaeger: %w", err)
	}
	// Renamed when complete, so that nobody finds half of it.
	unfinished, err := os.MkdirTemp(dir, "unfinished-")
	if err != nil {
		return "", fmt.Errorf("build Jaeger: %w", err)
	}
	defer os.RemoveAll(unfinished)
	fmt.Fprintf(say, "building Jaeger %s from its module, once; this takes some minutes ...\n", version)
	start := time.Now()
	binary := filepath.Join(unfinished, "jaeger")
	cmd := goCommand(ctx, "build", "-ldflags", "-s -w", "-o", binary, jaegerPackage)
	cmd.Stderr = say
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("build Jaeger: go build %s in %s: %w", jaegerPackage, toolsModule, err)
	}
	if err := os.Rename(binary, path); err != nil {
		return "", fmt.Errorf("build Jaeger: %w", err)
	}
	fmt.Fprintf(say, "built in %v: %s\n", time.Since(start).Round(time.Second), path)
	return path, nil
}

// required is Jaeger's version, and a sum of all versions it is built from.
func required() (version, sum string, err error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(toolsModule, name))
		if errors.Is(err, os.ErrNotExist) {
			return "", "", fmt.Errorf("build Jaeger: no %s here: run it in its own folder (go -C examples/jaeger run .)", filepath.Join(toolsModule, name))
		}
		if err != nil {
			return "", "", fmt.Errorf("build Jaeger: %w", err)
		}
		hash.Write(content)
		for line := range strings.Lines(string(content)) {
			if f := strings.Fields(line); name == "go.mod" && len(f) >= 2 && f[0] == jaegerModule {
				version = f[1]
			}
		}
	}
	if version == "" {
		return "", "", fmt.Errorf("build Jaeger: %s/go.mod does not require %s", toolsModule, jaegerModule)
	}
	return version, fmt.Sprintf("%x", hash.Sum(nil)[:4]), nil
}

// goCommand runs the go command in toolsModule, interrupted if ctx ends.
func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = toolsModule
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// lastLines keeps the end of what a process says, for the case that it fails.
type lastLines struct{ buffer bytes.Buffer }

const keptOutput = 4 << 10

func (l *lastLines) Write(p []byte) (int, error) {
	l.buffer.Write(p)
	if over := l.buffer.Len() - keptOutput; over > keptOutput {
		l.buffer.Next(over)
	}
	return len(p), nil
}

func (l *lastLines) String() string {
	text := l.buffer.String()
	return text[max(0, len(text)-keptOutput):]
}

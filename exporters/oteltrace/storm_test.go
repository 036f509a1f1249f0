package oteltrace_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// stalled is an exporter that gets nowhere until it is released.
type stalled struct {
	release chan struct{}
	n       atomic.Int64
}

func (s *stalled) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	<-s.release
	s.n.Add(int64(len(spans)))
	return nil
}

func (s *stalled) Shutdown(context.Context) error { return nil }

// A storm of 2,000 connections of seven spans each, while the exporter stalls: what the default bound lets through fits into the batch
// processor's default queue, and what it keeps back is counted. Without the bound the queue loses most.
func TestTheDefaultBoundKeepsAStormWithinTheDefaultQueue(t *testing.T) {
	for _, bound := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) { storm(t, bound) })
	}
}

func storm(t *testing.T, bound int) {
	e := &stalled{release: make(chan struct{})}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
	sink := oteltrace.New(tp)
	sink.MaxConnectionTraces = bound
	p := profiler.Profiler{Sinks: []profiler.Sink{sink}}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				c := p.NewConn(shop, profiler.RolePool)
				for _, step := range secured {
					c.Cut(step.p, profiler.Now())
				}
				c.Ready(context.Background())
			}
		})
	}
	wg.Wait()
	close(e.release)
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	const spans = 7 // connection_setup and six phases; other has none
	exported := e.n.Load()
	if bound == 0 && (exported != 100*spans || sink.Dropped() != 1900) {
		t.Errorf("%d spans exported, %d connections kept back", exported, sink.Dropped())
	}
	if bound < 0 && (sink.Dropped() != 0 || exported > 2000*spans/2) {
		t.Errorf("without a bound %d spans exported, %d connections kept back", exported, sink.Dropped())
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// memory stands for Jaeger where only the rest is to be tested: it keeps the spans as Jaeger would tell them.
type memory struct {
	mu    sync.Mutex
	spans map[string][]*span // mu: by trace ID
}

var (
	_ store                 = (*memory)(nil)
	_ sdktrace.SpanExporter = (*memory)(nil)
)

func (m *memory) fetch(_ context.Context, traceID string, n int) ([]*span, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := m.spans[traceID]; len(got) >= n && n > 0 {
		return got, nil
	}
	return nil, fmt.Errorf("no %d spans of trace %s", n, traceID)
}

func (m *memory) warnings(context.Context, string) ([]string, error) { return nil, nil }
func (m *memory) url(traceID string) string                          { return "memory:" + traceID }
func (m *memory) Shutdown(context.Context) error                     { return nil }

func (m *memory) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range spans {
		service, _ := r.Resource().Set().Value("service.name")
		s := &span{
			trace: r.SpanContext().TraceID().String(), id: r.SpanContext().SpanID().String(),
			name: r.Name(), kind: kindName(int(r.SpanKind())),
			start: r.StartTime().UnixNano(), end: r.EndTime().UnixNano(), attrs: values(r.Attributes()),
			failed: r.Status().Code == codes.Error, status: r.Status().Description,
			service: service.AsString(), scope: r.InstrumentationScope().Name,
			dropped: r.DroppedAttributes() + r.DroppedEvents() + r.DroppedLinks(),
		}
		if r.Parent().IsValid() {
			s.parent = r.Parent().SpanID().String()
		}
		for _, l := range r.Links() {
			s.links = append(s.links, link{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String(), values(l.Attributes)})
		}
		for _, e := range r.Events() {
			s.events = append(s.events, event{e.Name, e.Time.UnixNano(), values(e.Attributes)})
		}
		m.spans[s.trace] = append(m.spans[s.trace], s)
	}
	return nil
}

func values(kvs []attribute.KeyValue) map[string]any {
	all := make(map[string]any, len(kvs))
	for _, kv := range kvs {
		all[string(kv.Key)] = kv.Value.AsInterface()
	}
	return all
}

// ran is the result of all scenes, run once, with the traces kept in memory.
var ran = sync.OnceValues(func() (*page, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m := &memory{spans: make(map[string][]*span)}
	s, err := prepare(ctx, "127.0.0.1:1") // nothing is sent there
	if err != nil {
		return nil, err
	}
	defer s.stop()
	s.tracing.sent.SpanExporter = m
	p := &page{w: io.Discard, store: m, check: true, checker: newChecker()}
	for _, scene := range scenes {
		if err := p.scene(ctx, s, scene); err != nil {
			return nil, err
		}
	}
	return p, nil
})

func theScenes(t *testing.T) *page {
	t.Helper()
	p, err := ran()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

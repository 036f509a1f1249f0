package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// fakeCollector keeps the spans it is sent.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*tracepb.Span // mu
}

func (f *fakeCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			f.spans = append(f.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansOfOneColdAndTwoWarmQueriesAVariant(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fake := new(fakeCollector)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, fake)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()

	global := otel.GetTracerProvider()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-iterations", "1", "-otlp", l.Addr().String()}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d, stderr %q", code, &stderr)
	}
	if otel.GetTracerProvider() != global {
		t.Error("the global tracer provider was set")
	}
	if !strings.Contains(stdout.String(), serviceName) {
		t.Error("the report doesn't say under which name the spans are found")
	}
	names, byID := make(map[string]int), make(map[string]*tracepb.Span)
	for _, span := range fake.spans {
		names[span.Name]++
		byID[string(span.SpanId)] = span
	}
	for _, variant := range []string{"mysql, TLS off", "mysql, TLS on", "mongodb, TLS off", "mongodb, TLS on"} {
		if cold, warm := names["cold query ("+variant+")"], names["warm query ("+variant+")"]; cold != 1 || warm != 2 {
			t.Errorf("%s: %d cold and %d warm queries", variant, cold, warm)
		}
	}
	if names["tls"] != 2 {
		t.Errorf("%d spans of TLS handshakes, want one for each variant with TLS: %v", names["tls"], names)
	}
	children := make(map[string]int)
	for _, span := range fake.spans {
		if parent := byID[string(span.ParentSpanId)]; parent != nil && strings.Contains(parent.Name, " query (") {
			children[parent.Name]++
		}
	}
	if len(children) != 8 {
		t.Errorf("only some of the queries have spans under them: %v", children)
	}
}

func TestCollectorThatIsNotThere(t *testing.T) {
	var stdout, stderr bytes.Buffer
	address := refused
	code := run(t.Context(), []string{"-iterations", "1", "-timeout", "2s", "-otlp", address}, &stdout, &stderr)
	want := "quickstart: otlp: send spans to " + address
	if code != exitFailed || !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 || stdout.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, stdout %q", code, &stderr, &stdout)
	}
}

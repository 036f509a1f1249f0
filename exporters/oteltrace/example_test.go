package oteltrace_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// Two requests: the first one opens a connection, the second one reuses it. The adoption functions of the drivers (pool/mysqlprof and its
// like) tell a Conn what is told by hand here.
func Example() {
	spans := tracetest.NewSpanRecorder() // in a program: an exporter
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	p := &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}}
	tracer := tp.Tracer("shop")

	ctx, span := tracer.Start(context.Background(), "GET /orders")
	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306", Namespace: "shop"}, profiler.RolePool)
	at := profiler.Now()
	at = at.Add(-c.Since(at)) // the create's start
	tell := func(phase profiler.Phase, d time.Duration) {
		at = at.Add(d)
		c.Cut(phase, at)
	}
	tell(profiler.Resolve, 200*time.Millisecond)
	tell(profiler.Connect, 300*time.Millisecond)
	tell(profiler.Greet, 100*time.Millisecond)
	tell(profiler.TLS, 700*time.Millisecond)
	tell(profiler.Auth, 400*time.Millisecond)
	c.Ready(ctx)
	query := func(ctx context.Context) {
		o := c.Begin(ctx, profiler.OpQuery, at)
		at = at.Add(250 * time.Millisecond)
		o.End(ctx, at, nil)
	}
	query(ctx)
	span.End()

	ctx, span = tracer.Start(context.Background(), "GET /orders")
	query(ctx)
	span.End()

	fmt.Print(tree(spans.Ended(), func(s sdktrace.ReadOnlySpan) string {
		if !s.Parent().IsValid() {
			return ""
		}
		a := attributesOf(s)
		text := fmt.Sprintf(" %v", time.Duration(s.EndTime().UnixNano()-s.StartTime().UnixNano()))
		if n, ok := a["connprof.query.index"]; ok {
			text += fmt.Sprintf(" number %v, reused %v", n, a["connprof.connection.reused"])
		}
		return text
	}))
	// Output:
	// GET /orders
	//   connection_setup db:3306 1.7s
	//     resolve 200ms
	//     connect 300ms
	//     greet 100ms
	//     tls 700ms
	//     auth 400ms
	//   query shop 250ms number 1, reused false [client] → connection_setup db:3306
	// GET /orders
	//   query shop 250ms number 2, reused true [client] → connection_setup db:3306
}

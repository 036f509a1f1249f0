package otelmetric_test

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// A program's readers get a Producer each. The adoption functions of the drivers (pool/mysqlprof and its like) tell a Conn what is told by
// hand here.
func Example() {
	p := new(profiler.Profiler)
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(otelmetric.New(p))) // in a program: a PeriodicReader, or Prometheus' exporter
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()

	ctx := context.Background()
	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306", Namespace: "shop"}, profiler.RolePool)
	at := profiler.Now()
	at = at.Add(-c.Since(at)) // the create's start
	for _, phase := range []profiler.Phase{profiler.Resolve, profiler.Connect, profiler.TLS, profiler.Auth} {
		at = at.Add(20 * time.Millisecond)
		c.Cut(phase, at)
	}
	c.Ready(ctx)
	for range 3 {
		o := c.Begin(ctx, profiler.OpExec, at)
		at = at.Add(2 * time.Millisecond)
		o.End(ctx, at, nil)
	}

	var rm metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &rm); err != nil {
		fmt.Println(err)
	}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		h, ok := m.Data.(metricdata.Histogram[float64])
		if !ok {
			continue
		}
		for _, point := range h.DataPoints {
			kept := func(kv attribute.KeyValue) bool {
				return kv.Key == "connprof.phase" || kv.Key == "connprof.connection.reused"
			}
			if kind, _ := point.Attributes.Filter(kept); kind.Len() > 0 {
				fmt.Printf("%s %s: %d in %.3f s\n", m.Name, kind.Encoded(attribute.DefaultEncoder()), point.Count, point.Sum)
			}
		}
	}
	// Output:
	// connprof.connection.phase.duration connprof.phase=resolve: 1 in 0.020 s
	// connprof.connection.phase.duration connprof.phase=connect: 1 in 0.020 s
	// connprof.connection.phase.duration connprof.phase=tls: 1 in 0.020 s
	// connprof.connection.phase.duration connprof.phase=auth: 1 in 0.020 s
	// connprof.query.duration connprof.connection.reused=false: 1 in 0.002 s
	// connprof.query.duration connprof.connection.reused=true: 2 in 0.004 s
}

// Connection metrics as instruments of the program's provider, here with a view of it that makes them exponential; the durations of operations
// come from the Producer.
func ExampleRegister() {
	p := new(profiler.Profiler)
	m := otelmetric.New(p)
	m.WithoutConnections, m.MaxSize = true, 320
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(m))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Name: "connprof.*", Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 320, MaxScale: 20}},
	)))
	stop, err := otelmetric.Register(p, provider)
	if err != nil {
		fmt.Println(err)
	}
	defer func() { _ = stop() }()

	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306"}, profiler.RolePool)
	c.Cut(profiler.Connect, profiler.Now())
	c.Ready(context.Background())
	o := c.Begin(context.Background(), profiler.OpExec, profiler.Now())
	o.End(context.Background(), profiler.Now(), nil)

	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		fmt.Println(err)
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == "connprof.connection.phase.duration" || m.Name == "db.client.operation.duration" {
				_, exponential := m.Data.(metricdata.ExponentialHistogram[float64])
				fmt.Println(m.Name, exponential)
			}
		}
	}
	// Output:
	// connprof.connection.phase.duration true
	// db.client.operation.duration true
}

package profiler_test

import (
	"context"
	"fmt"

	"github.com/connprof/connprof/profiler"
)

// A Sink that writes over the network belongs behind Async: what it takes is then nobody's query time, and what it can't keep up with is
// dropped and counted.
func ExampleAsync() {
	sink, stop := profiler.Async(printer{}, 1024)
	p := profiler.Profiler{Sinks: []profiler.Sink{sink}}

	c := p.NewConn(profiler.Endpoint{System: "mongodb", Address: "db:27017"}, profiler.RolePool)
	c.Ready(context.Background())

	stop() // delivers what is queued
	fmt.Println("dropped:", sink.Dropped())
	// Output:
	// create db:27017
	// dropped: 0
}

type printer struct{}

func (printer) Record(_ context.Context, e profiler.Event) {
	fmt.Println(e.Kind, e.Conn.Endpoint().Address)
}

package main

import (
	"testing"

	"github.com/connprof/connprof/pool/mongoprof"
	"github.com/connprof/connprof/profiler"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// What the table measures is work that is done: every find is an operation.
func TestTheMongoRowsAreOperations(t *testing.T) {
	p := new(profiler.Profiler)
	o := mongoprof.Instrument(p, options.Client())
	m := monitors{command: o.Monitor, pool: o.PoolMonitor}
	m.create()
	command, reply := findOne()
	for i := range 10 {
		m.find(t.Context(), command, reply, int64(i))
	}
	if first, reused := p.Report().Endpoint(mongoAddress, profiler.RolePool).Queries(); first != 1 || reused != 9 {
		t.Errorf("%d first, %d reused", first, reused)
	}
}

package main

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.opentelemetry.io/contrib/instrumentation/go.mongodb.org/mongo-driver/mongo/otelmongo"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/pool/mongoprof"
	"github.com/connprof/connprof/profiler"
)

// monitors are what a MongoDB client (driver 1.17) has in its options. No client and no server is there: the events are handed to them
// as the driver hands them, made anew for each command, so that a difference is the monitors' own.
type monitors struct {
	name    string
	ctx     func() context.Context
	command *event.CommandMonitor
	pool    *event.PoolMonitor
}

// mongoSubjects are in the order of the table, the bare one first.
func mongoSubjects() []monitors {
	connprof := func(p *profiler.Profiler) (*event.CommandMonitor, *event.PoolMonitor) {
		o := mongoprof.Instrument(p, options.Client())
		return o.Monitor, o.PoolMonitor
	}
	unsampled := func() context.Context { return deep(0) }
	subject := func(name string, c *event.CommandMonitor, p *event.PoolMonitor) monitors {
		return monitors{name, unsampled, c, p}
	}
	nothing := &event.PoolMonitor{Event: func(*event.PoolEvent) {}}
	plain := &event.CommandMonitor{
		Succeeded: func(context.Context, *event.CommandSucceededEvent) {}, Failed: func(context.Context, *event.CommandFailedEvent) {},
	}
	otel := func(tp trace.TracerProvider, o ...otelmongo.Option) *event.CommandMonitor {
		return otelmongo.NewMonitor(append(o, otelmongo.WithTracerProvider(tp))...)
	}
	noop, _ := none()
	sampler, _ := production()
	all := []monitors{subject("monitors that do nothing", plain, nothing)}
	for _, s := range []struct {
		name string
		p    *profiler.Profiler
	}{
		{"connprof", new(profiler.Profiler)},
		{"connprof, production", &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(sampler)}}},
		{"connprof, Statements", &profiler.Profiler{Statements: true}},
	} {
		c, p := connprof(s.p)
		all = append(all, subject(s.name, c, p))
	}
	return append(all,
		subject("otelmongo 0.40, no-op", otel(noop), nothing),
		subject("otelmongo 0.40, production", otel(sampler), nothing),
		subject("otelmongo 0.40, production, without the command", otel(sampler, otelmongo.WithCommandAttributeDisabled(true)), nothing),
	)
}

const (
	mongoAddress = "localhost:27017"
	mongoConn    = "localhost:27017[-7]"
)

// create makes the connection that all commands run on.
func (m *monitors) create() {
	m.pool.Event(&event.PoolEvent{Type: event.PoolCreated, Address: mongoAddress})
	m.pool.Event(&event.PoolEvent{Type: event.ConnectionCreated, Address: mongoAddress, ConnectionID: 1})
	m.pool.Event(&event.PoolEvent{Type: event.ConnectionReady, Address: mongoAddress, ConnectionID: 1})
}

// find is one command, with the events around it. The driver copies the command for whoever wants its start.
func (m *monitors) find(ctx context.Context, command, reply bson.Raw, id int64) {
	m.pool.Event(&event.PoolEvent{Type: event.GetStarted, Address: mongoAddress})
	m.pool.Event(&event.PoolEvent{Type: event.GetSucceeded, Address: mongoAddress, ConnectionID: 1, Duration: time.Microsecond})
	if m.command.Started != nil {
		m.command.Started(ctx, &event.CommandStartedEvent{
			Command: slices.Clone(command), DatabaseName: "shop", CommandName: "find", RequestID: id, ConnectionID: mongoConn,
		})
	}
	m.command.Succeeded(ctx, &event.CommandSucceededEvent{Reply: reply, CommandFinishedEvent: event.CommandFinishedEvent{
		Duration: 80 * time.Microsecond, CommandName: "find", DatabaseName: "shop", RequestID: id, ConnectionID: mongoConn,
	}})
	m.pool.Event(&event.PoolEvent{Type: event.ConnectionReturned, Address: mongoAddress, ConnectionID: 1})
}

// findOne is a find by _id and its answer.
func findOne() (command, reply bson.Raw) {
	marshal := func(v any) bson.Raw {
		b, err := bson.Marshal(v)
		if err != nil {
			panic(err)
		}
		return b
	}
	return marshal(bson.D{
			{Key: "find", Value: "orders"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: 7}}}, {Key: "limit", Value: 1},
			{Key: "singleBatch", Value: true}, {Key: "lsid", Value: bson.D{{Key: "id", Value: make([]byte, 16)}}}, {Key: "$db", Value: "shop"},
		}), marshal(bson.D{
			{Key: "cursor", Value: bson.D{
				{Key: "firstBatch", Value: bson.A{bson.D{{Key: "_id", Value: 7}, {Key: "name", Value: "x"}}}},
				{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.orders"},
			}}, {Key: "ok", Value: 1.0},
		})
}

// mongoCalls are the names of the tables for MongoDB.
var mongoCalls = []string{"MongoDB find, its pool's events included"}

// mongoTable measures the monitors.
func mongoTable(title string) *table {
	t := &table{title: title, goroutines: 1}
	command, reply := findOne()
	id := int64(0)
	for _, m := range mongoSubjects() {
		m.create()
		ctx := m.ctx()
		t.add(m.name, func() error {
			id++
			m.find(ctx, command, reply, id)
			return nil
		})
	}
	return t
}

package pool

import (
	"context"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

func benchContext() context.Context {
	type key int
	ctx := context.Background()
	for i := range 12 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	return ctx
}

// reused is a connection whose name is known, and one command's events on it: what CMAP adds to each command of a client.
func reused(tb testing.TB, p *profiler.Profiler) (command, all func()) {
	m := &CMAP{Profiler: p, Endpoint: profiler.Endpoint{System: "mongodb"}}
	const address, driver = "localhost:27017", "localhost:27017[-17]"
	for id := range uint64(100) {
		m.Pool(&PoolEvent{Type: connectionCreated, Address: address, ConnectionID: id})
		m.Pool(&PoolEvent{Type: connectionReady, Address: address, ConnectionID: id})
	}
	ctx := benchContext()
	command = func() {
		m.Command(ctx, &CommandEvent{ConnectionID: driver, Name: "find", Database: "test", Duration: 80 * time.Microsecond})
	}
	all = func() {
		m.Pool(&PoolEvent{Type: "ConnectionCheckOutStarted", Address: address})
		m.Pool(&PoolEvent{Type: connectionCheckedOut, Address: address, ConnectionID: 17, Duration: time.Microsecond})
		command()
		m.Pool(&PoolEvent{Type: connectionCheckedIn, Address: address, ConnectionID: 17})
	}
	all()
	if got := m.Stats(); p.Enabled() && (got.Unjoined != 0 || got.Pending != 0) {
		tb.Fatalf("%+v", got)
	}
	return command, all
}

func TestBoundsOfACMAPCommand(t *testing.T) {
	_, all := reused(t, new(profiler.Profiler))
	if n := testing.AllocsPerRun(1000, all); n != 0 {
		t.Errorf("%v allocations a command", n)
	}
}

// BenchmarkCMAPCommand is one command on a reused connection: its end alone, and with the three pool events around it.
func BenchmarkCMAPCommand(b *testing.B) {
	run := func(name string, p *profiler.Profiler, events bool) {
		b.Run(name, func(b *testing.B) {
			command, all := reused(b, p)
			if events {
				command = all
			}
			b.ReportAllocs()
			for b.Loop() {
				command()
			}
		})
	}
	run("command", new(profiler.Profiler), false)
	run("all", new(profiler.Profiler), true)
	off := new(profiler.Profiler)
	off.Disable()
	run("all,off", off, true)
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			profiler.Now()
		}
	})
}

// BenchmarkCMAPConnection is the making and the end of a connection, its dial excepted.
func BenchmarkCMAPConnection(b *testing.B) {
	m := &CMAP{Profiler: new(profiler.Profiler)}
	b.ReportAllocs()
	for b.Loop() {
		m.Pool(&PoolEvent{Type: connectionCreated, Address: "localhost:27017", ConnectionID: 1})
		m.Pool(&PoolEvent{Type: connectionReady, Address: "localhost:27017", ConnectionID: 1})
		m.Pool(&PoolEvent{Type: connectionClosed, Address: "localhost:27017", ConnectionID: 1, Reason: "idle"})
	}
}

package pool_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/internal/timing"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// silentConn takes and gives what it is asked for, at once.
type silentConn struct{ net.Conn }

func (silentConn) Read(b []byte) (int, error)  { return len(b), nil }
func (silentConn) Write(b []byte) (int, error) { return len(b), nil }
func (silentConn) Close() error                { return nil }
func (silentConn) RemoteAddr() net.Addr        { return nil }
func (silentConn) LocalAddr() net.Addr         { return nil }

// What a MongoDB connection costs more to make with a profiler: CMAP's events, the goroutine's number, the Dialer, and what watches the hello
// and the login. Without a network, whose noise would hide it, and so without the kernel's TCP_INFO, two system calls.
func TestBoundsOfAMongoEstablishing(t *testing.T) {
	const addr = "localhost:27017"
	ctx := context.Background()
	dial := func(context.Context, string, string) (net.Conn, error) { return silentConn{}, nil }
	buf := make([]byte, 300)
	speak := func(dial pool.DialFunc) net.Conn {
		nc, err := dial(ctx, "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // hello, and two of SCRAM
			nc.Write(buf)
			nc.Read(buf)
		}
		return nc
	}
	p := new(profiler.Profiler)
	e := profiler.Endpoint{System: "mongodb"}
	d := &handshake.Dialer{Profiler: p, Endpoint: e, DialFunc: dial}
	m := &pool.CMAP{Profiler: p, Endpoint: e, Dial: d.DialContext}
	id := uint64(0)
	event := func(kind string) { m.Pool(&pool.PoolEvent{Type: kind, Address: addr, ConnectionID: id}) }
	watched := func() {
		id++
		event("ConnectionCreated")
		nc := speak(m.DialContext)
		event("ConnectionReady")
		nc.Close()
		event("ConnectionClosed")
	}
	measure := func(rounds int, f func()) (took time.Duration, size int64) {
		const n = 50
		took = time.Hour
		for range rounds {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			for range n {
				f()
			}
			took = min(took, time.Since(start)/n) // other work on the machine only adds
			runtime.ReadMemStats(&after)
			size = int64(after.TotalAlloc-before.TotalAlloc) / n
		}
		return took, size
	}
	rounds := 3
	if timing.On() {
		rounds = 30
	}
	var more time.Duration
	var size int64
	for range 5 {
		off, offSize := measure(rounds, func() { speak(dial).Close() })
		on, onSize := measure(rounds, watched)
		more, size = on-off, onSize-offSize
		t.Logf("a connection takes %v and %d bytes, bare %v and %d", on, onSize, off, offSize)
		if size <= 8<<10 && (more <= 60*time.Microsecond || !timing.On()) {
			break
		}
	}
	if size > 8<<10 || timing.On() && more > 60*time.Microsecond {
		t.Errorf("establishing costs %v and %d bytes; want at most 60 µs and 8 KiB", more, size)
	}
	if e := p.Report().Endpoint(addr, profiler.RolePool); e == nil || e.Created != int64(id) || e.Closed != int64(id) {
		t.Errorf("report %+v, want %d connections of the pool", e, id)
	}
}

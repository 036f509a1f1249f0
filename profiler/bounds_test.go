package profiler

import (
	"context"
	"io"
	"runtime"
	"testing"
)

func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what one collection frees may free more in the next
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// typical takes a connection from NewConn to its first operation as instrumentation does.
func typical(p *Profiler, ctx context.Context) *Conn {
	c := p.NewConn(orders, RolePool)
	c.Cut(Resolve, Now())
	c.Cut(Connect, Now())
	c.Attempt(Attempt{Network: "tcp", Address: "10.0.0.7:3306"})
	c.Watch(&settler{c: c})
	c.Cut(TLS, Now())
	c.Cut(Auth, Now())
	c.Ready(ctx)
	c.CheckedOut(ctx, 0, Now())
	op(ctx, c, OpQuery, 0, 0, nil)
	c.CheckedIn(0)
	return c
}

func TestBoundsHeapAfterAMillionConnections(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("measures memory; the race detector has its own")
	}
	p := Profiler{Sinks: []Sink{sinkFunc(func(context.Context, Event) {})}}
	ctx := context.Background()
	run := func(n int) {
		for i := range n {
			c := typical(&p, ctx)
			if i%1000 == 7 {
				p.NewConn(orders, RolePool).Fail(ctx, io.EOF)
			}
			stop := p.WatchPool("db", func() PoolStats { return PoolStats{} })
			c.Closed(CloseIdleLimit, nil)
			stop()
		}
		p.Flush()
	}
	run(100_000) // series, failures and queues at their size
	before := heap()
	run(1_000_000)
	if grown := heap() - before; grown > 1<<20 || grown < -1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	} else {
		t.Logf("the heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(&p)
}

func TestBoundsMemoryOfALiveConnection(t *testing.T) {
	if raceEnabled {
		t.Skip("measures memory; the race detector has its own")
	}
	var p Profiler
	typical(&p, context.Background())
	const n = 8000
	before := heap()
	for range n {
		typical(&p, context.Background())
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a live connection", each)
	if each > 1024 {
		t.Errorf("a live connection takes %d bytes, more than 1 KiB", each)
	}
	runtime.KeepAlive(&p)
}

func TestBoundsAReusedOperationDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("counts allocations; the race detector has its own")
	}
	decline := sinkFunc(func(context.Context, Event) {})
	for _, tt := range benchmarks(decline) {
		p, ctx := tt.p, tt.ctx
		c := p.NewConn(orders, RolePool)
		c.Ready(noContext)
		for m := range NumMeasures {
			c.s.record(m, OK, 1) // each series exists
		}
		if n := testing.AllocsPerRun(1000, func() { one(c, ctx) }); n != 0 {
			t.Errorf("%s: %v allocations an operation", tt.name, n)
		}
	}
}

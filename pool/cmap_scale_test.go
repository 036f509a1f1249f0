package pool

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

// A program that makes ten thousand clients, one after the other, ends with the heap it began with, and shows as what it is.
func TestCMAPKeepsNothingOfClientsThatAreGone(t *testing.T) {
	p := &profiler.Profiler{}
	client := func(i int) {
		m := &CMAP{Profiler: p, Endpoint: profiler.Endpoint{System: "mongodb"}, RetryReads: true}
		m.Pool(&PoolEvent{Type: poolCreated, Address: here, MaxPoolSize: 100})
		m.Pool(&PoolEvent{Type: connectionCreated, Address: here, ConnectionID: 1})
		m.Pool(&PoolEvent{Type: connectionReady, Address: here, ConnectionID: 1})
		m.Pool(&PoolEvent{Type: connectionCheckedOut, Address: here, ConnectionID: 1, Duration: time.Millisecond})
		name := fmt.Sprintf("%s[-%d]", here, i)
		m.Command(context.Background(), &CommandEvent{ConnectionID: name, Name: "find", Err: context.DeadlineExceeded, RetryableRead: i%3 == 0})
		m.Pool(&PoolEvent{Type: connectionCheckedIn, Address: here, ConnectionID: 1})
		m.Pool(&PoolEvent{Type: poolClosed, Address: here})
		m.Pool(&PoolEvent{Type: connectionClosed, Address: here, ConnectionID: 1, Reason: "poolClosed"})
		if got := m.Stats(); got.Conns+got.Pending+got.Held != 0 || got.Draining != 0 {
			t.Fatalf("left over: %+v", got)
		}
	}
	heap := func() int64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	const n = 10_000
	for i := range 1000 {
		client(i)
	}
	before := heap()
	for i := range n {
		client(i)
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	r := p.Report()
	if first, _ := r.Endpoint(here, profiler.RolePool).Queries(); first != 1000+n || len(r.Pools) != 1 || r.Pools[0].Opened != 1000+n || r.Pools[0].Live != 0 {
		t.Errorf("%d first operations, pools %+v", first, r.Pools)
	}
}

// slowSink is a Sink that takes its time.
type slowSink time.Duration

func (s slowSink) Record(context.Context, profiler.Event) { time.Sleep(time.Duration(s)) }

// A slow Sink takes its time once for each event, and none of a checkout; behind Async it takes none of anything.
func TestCMAPWithASlowSink(t *testing.T) {
	const pace = time.Second
	play := func(t *testing.T, sink profiler.Sink) (checkout, command time.Duration) {
		s := newScript(t)
		s.p.Sinks = []profiler.Sink{sink}
		s.pool(connectionCreated, 1)
		s.pool(connectionReady, 1)
		start := time.Now()
		s.out(1, 0)
		checkout = time.Since(start)
		start = time.Now()
		s.command("find", here+"[-1]", 0)
		command = time.Since(start)
		s.in(1)
		s.close(1, "idle", nil)
		return checkout, command
	}
	synctest.Test(t, func(t *testing.T) {
		if out, cmd := play(t, slowSink(pace)); out != 0 || cmd != 2*pace { // first response and end
			t.Errorf("a checkout took %v, a command %v", out, cmd)
		}
		a, stop := profiler.Async(slowSink(pace), 1)
		if out, cmd := play(t, a); out != 0 || cmd != 0 {
			t.Errorf("behind Async a checkout took %v, a command %v", out, cmd)
		}
		stop()
		if a.Dropped() == 0 || a.Panics() != 0 { // one in hand, one queued, one too many
			t.Errorf("%d dropped, %d panics", a.Dropped(), a.Panics())
		}
	})
}

func TestLookedUp(t *testing.T) {
	if _, ok := SRVHost("mongodb://u:p@db/"); ok {
		t.Error("no SRV records are looked up for mongodb://")
	}
	host, ok := SRVHost("mongodb+srv://u:p@cluster.example.com/?tls=true")
	if host != "cluster.example.com" || !ok {
		t.Errorf("host %q, %v", host, ok)
	}
	synctest.Test(t, func(t *testing.T) {
		p := &profiler.Profiler{}
		c := p.NewConn(profiler.Endpoint{System: "mongodb", Address: host}, profiler.RoleOther)
		time.Sleep(30 * time.Millisecond)
		LookedUp(c, nil)
		LookedUp(nil, nil)
		e := p.Report().Endpoint(host, profiler.RoleOther)
		if m := e.Measure(profiler.Measure(profiler.Resolve), profiler.OK); m == nil || m.Sum != 30*time.Millisecond || e.Live != 0 {
			t.Errorf("resolve %+v, %d live", m, e.Live)
		}
		if e.Measure(profiler.MeasureCreate, profiler.OK) != nil {
			t.Error("a look-up has no total")
		}
	})
}

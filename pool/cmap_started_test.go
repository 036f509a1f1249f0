package pool

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// find {find: "things"} as BSON.
const findThings = "\x16\x00\x00\x00\x02find\x00\x07\x00\x00\x00things\x00\x00"

// Starts without an end, a million of them, leave nothing behind, and a late end is no other command's.
func TestCMAPStartsWithoutAnEnd(t *testing.T) {
	s := newScript(t)
	s.p.Sinks = nil
	s.create(1)
	s.out(1, 0)
	s.command("find", here+"[-1]", 0)
	start := func(driver string, request int64) {
		s.m.Started(context.Background(), StartedEvent{ConnectionID: driver, RequestID: request, Name: "find", Command: []byte(findThings)})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 1_000_000
	for i := range int64(n) {
		start(here+"[-1]", i)
		if i%4 == 0 {
			start(here+"[-2]", i) // of a connection that is not known
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if got := s.m.Stats(); got.Abandoned != n-1 || got.Pending != 0 {
		t.Errorf("%+v", got)
	}
	var tl profiler.Timeline
	end := func(request int64) profiler.Operation {
		s.m.Command(profiler.WithSink(context.Background(), &tl), &CommandEvent{
			ConnectionID: here + "[-1]", RequestID: request, Name: "find", Database: "test", Duration: time.Millisecond,
		})
		all := tl.Events()
		return all[len(all)-1].Op
	}
	if op := end(3); op.Collection != "" || op.End.Sub(op.Start) != time.Millisecond {
		t.Errorf("an end that came too late: %+v", op)
	}
	start(here+"[-1]", n)
	if op := end(n); op.Collection != "things" || op.Name != "find" || op.Text != "" {
		t.Errorf("%+v", op)
	}
}

func TestCMAPCountsAwaitedRepliesApart(t *testing.T) {
	s := newScript(t)
	c := s.create(1)
	s.out(1, 0)
	s.command("find", here+"[-1]", 0)
	reply := func(id byte, doc bool) []byte {
		batch := "\x05\x00\x00\x00\x00"
		if doc {
			batch = "\x0d\x00\x00\x00\x030\x00\x05\x00\x00\x00\x00\x00"
		}
		cursor := "\x04nextBatch\x00" + batch + "\x12id\x00" + string(id) + "\x00\x00\x00\x00\x00\x00\x00" + "\x02ns\x00\x0c\x00\x00\x00test.things\x00"
		inner := string(byte(len(cursor)+5)) + "\x00\x00\x00" + cursor + "\x00"
		return []byte(string(byte(len(inner)+5+8)) + "\x00\x00\x00\x03cursor\x00" + inner + "\x00")
	}
	more := func(b []byte) {
		s.m.Command(context.Background(), &CommandEvent{ConnectionID: here + "[-1]", Name: "getMore", Database: "test", Duration: time.Second, Reply: b})
	}
	more(reply(7, true))
	more(reply(7, false)) // waited in vain for data
	more(reply(0, false)) // the end of a plain cursor
	s.pool(poolCreated, 0)
	s.heartbeat(HeartbeatStarted, true, nil)
	s.heartbeat(HeartbeatSucceeded, true, nil)
	if w := s.p.Report().Pools[0]; w.AwaitedHeartbeats != 1 {
		t.Errorf("pool %+v", w)
	}
	ops := s.operations()
	if got := s.m.Stats(); got.AwaitedGetMores != 1 || got.AwaitedHeartbeats != 1 || len(ops) != 3 || c.Ops() != 4 {
		t.Fatalf("%+v, %d operations of %d", got, len(ops), c.Ops())
	}
	if a, b := ops[1].Op, ops[2].Op; a.Cursor != 7 || a.Collection != "things" || b.Cursor != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// A caller who gives up leaves its connection in the pool with a reply still to come.
func TestCMAPDrainingAfterATimeout(t *testing.T) {
	s := newScript(t)
	s.create(1)
	s.pool(poolCreated, 0)
	use := func(err error) int64 {
		s.out(1, 0)
		s.m.Command(context.Background(), &CommandEvent{ConnectionID: here + "[-1]", Name: "find", Err: err})
		s.in(1)
		if n := s.m.Stats().Draining; n != int64(s.p.Report().Pools[0].Draining) {
			t.Errorf("%d drain, the report says %d", n, s.p.Report().Pools[0].Draining)
		}
		return s.m.Stats().Draining
	}
	if a, b, c := use(nil), use(context.DeadlineExceeded), use(nil); a != 0 || b != 1 || c != 0 {
		t.Errorf("draining: %d, after a timeout %d, used again %d", a, b, c)
	}
	use(context.Canceled)
	s.close(1, "error", nil)
	if n := s.m.Stats().Draining; n != 0 {
		t.Errorf("draining: %d, though it was closed", n)
	}
	s.empty()
}

func FuzzParseCursor(f *testing.F) {
	f.Add([]byte(findThings))
	f.Add([]byte("\x05\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := parseCursor(b)
		if !ok && (c.id != 0 || c.ns != nil) {
			t.Error("a cursor out of nothing")
		}
		_ = c.collection()
	})
}

package pool

import (
	"context"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// One number may be a request's on each of two connections: their starts and ends don't mix.
func TestCMAPTellsRequestsOfOneNumberApart(t *testing.T) {
	s := newScript(t)
	for id := range uint64(2) {
		s.create(id + 1)
		s.out(id+1, 0)
		s.command("find", []string{here + "[-1]", here + "[-2]"}[id], 0)
	}
	command := func(coll string) []byte {
		d := "\x02find\x00" + string(byte(len(coll)+1)) + "\x00\x00\x00" + coll + "\x00"
		return []byte(string(byte(len(d)+5)) + "\x00\x00\x00" + d + "\x00")
	}
	const number = 77
	s.m.Started(context.Background(), StartedEvent{ConnectionID: here + "[-1]", RequestID: number, Name: "find", Command: command("things")})
	s.m.Started(context.Background(), StartedEvent{ConnectionID: here + "[-2]", RequestID: number, Name: "find", Command: command("others")})
	for _, name := range []string{here + "[-1]", here + "[-2]"} {
		s.m.Command(context.Background(), &CommandEvent{ConnectionID: name, RequestID: number, Name: "find", Database: "test"})
	}
	ops := s.operations()
	if n := len(ops); n != 4 || ops[2].Op.Collection != "things" || ops[3].Op.Collection != "others" || ops[2].Conn == ops[3].Conn {
		t.Errorf("%d operations, the last two %+v, %+v", n, ops[n-2].Op, ops[n-1].Op)
	}
	if got := s.m.Stats(); got.Abandoned != 0 {
		t.Errorf("%+v", got)
	}
}

// Ten thousand parts of one cursor are reported under the caller's own context each, none under the one before, and leave nothing.
func TestCMAPDoesNotChainTheParts(t *testing.T) {
	s := newScript(t)
	type key struct{}
	caller := context.WithValue(context.Background(), key{}, 1)
	var all contexts
	s.p.Sinks = []profiler.Sink{&all}
	s.create(1)
	s.out(1, 0)
	const n = 10_000
	for i := range int64(n) {
		s.m.Started(caller, StartedEvent{ConnectionID: here + "[-1]", RequestID: i, Name: "getMore"})
		s.m.Command(caller, &CommandEvent{ConnectionID: here + "[-1]", RequestID: i, Name: "getMore", Database: "test"})
	}
	if len(all) != n {
		t.Fatalf("%d operations", len(all))
	}
	for _, ctx := range all {
		if ctx != caller {
			t.Fatalf("reported under %v, the caller's is %v", ctx, caller)
		}
	}
	if got := s.m.Stats(); got.Abandoned != 0 || got.Held != 0 {
		t.Errorf("%+v", got)
	}
}

// contexts are those of operations.
type contexts []context.Context

func (c *contexts) Record(ctx context.Context, e profiler.Event) {
	if e.Kind == profiler.KindOperation {
		*c = append(*c, ctx)
	}
}

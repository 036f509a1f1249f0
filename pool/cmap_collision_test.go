package pool

import (
	"sync"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// A server that was removed and came back has a new pool that numbers from 1 again while the old one still has users.
func TestCMAPTellsPoolsThatFollowEachOtherApart(t *testing.T) {
	s := newScript(t)
	old := s.create(1)
	s.out(1, 0)
	s.command("find", here+"[-1]", 0)
	s.pool(poolClosed, 0) // comes before the closes of what is in use

	s.pool("ConnectionPoolCreated", 0)
	next := s.create(1)
	if old == next {
		t.Fatal("two creates, one Conn")
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		s.out(1, 0) // only the new one is idle
		s.command("insert", here+"[-2]", 0)
	})
	wg.Wait()
	s.command("getMore", here+"[-1]", 0)
	for i, want := range []*profiler.Conn{old, next, old} {
		if got := s.operations()[i].Conn; got != want {
			t.Errorf("operation %d on connection %d, want %d", i, got.ID(), want.ID())
		}
	}
	s.in(1) // of either
	s.close(1, "poolClosed", nil)
	s.in(1)
	s.close(1, "idle", nil)
	s.empty()
	if got := s.m.Stats(); got.Unjoined != 0 {
		t.Errorf("%+v", got)
	}
}

// Two clients share one set of options, or one client has an inner one.
func TestCMAPDoesNotGuessBetweenClientsThatShareIt(t *testing.T) {
	s := newScript(t)
	a, b := s.create(1), s.create(1)
	s.out(1, 0) // of either: no wait, no use is recorded
	s.command("find", here+"[-1]", 0)
	s.in(1)
	if n := len(s.operations()); n != 0 || s.m.Stats().Unjoined != 1 {
		t.Errorf("%d operations, %+v", n, s.m.Stats())
	}
	r := s.p.Report()
	if n := len(r.Findings); r.Dropped.Operations != 1 || n != 2 || r.Findings[1].ID != "operations_untied" || // and create_opaque: nothing was dialed
		r.Sub(r).Dropped.Operations != 0 {
		t.Errorf("%+v, findings %+v", r.Dropped, r.Findings)
	}
	s.close(1, "idle", nil)
	s.close(1, "poolClosed", nil)
	s.empty()
	e := s.p.Report().Endpoint(here, profiler.RolePool)
	if e.Created != 2 || e.Closed != 2 || e.Measure(profiler.MeasureUse, profiler.OK) != nil {
		t.Errorf("%d created, %d closed", e.Created, e.Closed)
	}
	for _, c := range []*profiler.Conn{a, b} {
		if c.Ops() != 0 {
			t.Errorf("%d operations on connection %d", c.Ops(), c.ID())
		}
	}
}

func TestCMAPAttributesAFailedCreateInASharedSlot(t *testing.T) {
	s := newScript(t)
	live := s.create(1)
	s.pool(connectionCreated, 1)
	failed := s.dial()
	s.close(1, "error", errHeartbeat)
	if live.Create().Err != nil || failed.Create() == nil || failed.Create().Err != errHeartbeat {
		t.Error("the failure went to the wrong connection")
	}
	s.out(1, 0)
	s.command("find", here+"[-1]", 0)
	if ops := s.operations(); len(ops) != 1 || ops[0].Conn != live {
		t.Errorf("operations %v", ops)
	}
	s.in(1)
	s.close(1, "idle", nil)
	s.empty()
}

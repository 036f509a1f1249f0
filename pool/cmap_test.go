package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

func TestCMAPTimesTheLifeOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t)
		sleep := time.Sleep
		s.pool("ConnectionPoolCreated", 0)
		s.pool("ConnectionCheckOutStarted", 0)
		sleep(3 * time.Millisecond) // the caller waits for another creator first
		s.pool(connectionCreated, 1)
		c := s.dial()
		sleep(20 * time.Millisecond)
		s.pool(connectionReady, 1)
		s.out(1, 23*time.Millisecond)
		sleep(2 * time.Millisecond)
		s.command("find", here+"[-7]", 2*time.Millisecond)
		sleep(time.Millisecond)
		s.in(1) // one command ran: its end is the use's, which saves reading the clock
		sleep(50 * time.Millisecond)
		s.out(1, 0)
		sleep(time.Millisecond)
		s.command("ping", here+"[-7]", time.Millisecond)
		s.command("getMore", here+"[-7]", time.Millisecond)
		s.in(1)
		s.out(1, 0)
		s.in(1)
		sleep(10 * time.Millisecond)
		s.close(1, "idle", nil)
		s.pool(poolClosed, 0)
		s.p.Flush()

		if c.Role() != profiler.RolePool || c.Endpoint() != (profiler.Endpoint{System: "mongodb", Address: here}) {
			t.Errorf("role %v, endpoint %+v", c.Role(), c.Endpoint())
		}
		if cr := c.Create(); cr.Duration != 20*time.Millisecond || cr.Caller || cr.Outcome != profiler.OK {
			t.Errorf("create %v, caller %v, outcome %v", cr.Duration, cr.Caller, cr.Outcome)
		}
		ops := s.operations()
		if len(ops) != 2 {
			t.Fatalf("%d operations", len(ops))
		}
		first, second := ops[0].Op, ops[1].Op
		if first.Kind != profiler.OpCommand || first.Name != "find" || first.Namespace != "test" || first.N != 1 || first.Turns != 1 {
			t.Errorf("first operation %+v", first)
		}
		if !first.WaitKnown || first.Wait != 23*time.Millisecond || first.Queued != 3*time.Millisecond {
			t.Errorf("waited %v (%v), queued %v", first.Wait, first.WaitKnown, first.Queued)
		}
		if d := first.End.Sub(first.Start); d != 2*time.Millisecond {
			t.Errorf("the first took %v", d)
		}
		if second.N != 2 || second.Name != "getMore" || second.Idle != 51*time.Millisecond {
			t.Errorf("second operation %+v", second)
		}
		last := s.events[len(s.events)-1]
		cl := last.Close
		if last.Kind != profiler.KindClose || cl.Reason != profiler.CloseIdleTime || cl.Life != 64*time.Millisecond || cl.Ops != 2 {
			t.Errorf("close %+v", last.Close)
		}
		s.empty()
	})
}

func TestCMAPTiesEachDialToItsGoroutine(t *testing.T) {
	s := newScript(t)
	s.pool(connectionCreated, 1) // on this goroutine
	var other, foreign, monitor *profiler.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		s.pool(connectionCreated, 2)
		other = s.dial()
		s.pool(connectionReady, 2)
		s.close(2, "stale", nil)
	})
	wg.Wait()
	wg.Go(func() { foreign = s.dial() })
	wg.Wait()
	wg.Go(func() {
		s.heartbeat(HeartbeatStarted, false, nil)
		monitor = s.dial()
		s.heartbeat(HeartbeatSucceeded, false, nil)
		s.heartbeat(HeartbeatStarted, true, nil)
		s.heartbeat(HeartbeatSucceeded, true, nil)
		s.heartbeat(HeartbeatStarted, false, nil) // on the connection that is there
		s.heartbeat(HeartbeatFailed, false, net.ErrClosed)
		if c := s.dial(); c.Role() != profiler.RoleUnattributed {
			t.Errorf("a dial after the heartbeat is %v", c.Role())
		}
	})
	wg.Wait()
	mine := s.dial()
	s.pool(connectionReady, 1)
	for i, c := range []*profiler.Conn{mine, other} {
		if c.Role() != profiler.RolePool || c.Create() == nil || c.Create().Err != nil {
			t.Errorf("connection %d: role %v, create %+v", i+1, c.Role(), c.Create())
		}
	}
	if mine == other {
		t.Error("two creates, one Conn")
	}
	if foreign.Role() != profiler.RoleUnattributed || foreign.Create() != nil {
		t.Errorf("foreign dial: role %v", foreign.Role())
	}
	if monitor.Role() != profiler.RoleMonitor || monitor.Kind() != "heartbeat" || monitor.Create() == nil || monitor.Create().Err != nil {
		t.Errorf("monitor: role %v, kind %q, create %+v", monitor.Role(), monitor.Kind(), monitor.Create())
	}
	if got := s.m.Stats(); got.Pending != 0 || got.Conns != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCMAPReportsFailedCreates(t *testing.T) {
	refused := errors.New("refused")
	tests := map[string]struct {
		play    func(s *script)
		role    profiler.Role
		outcome profiler.Outcome
		is      error
	}{
		"pool": {func(s *script) {
			s.pool(connectionCreated, 1)
			s.dial()
			s.close(1, "error", refused)
		}, profiler.RolePool, profiler.Failed, refused},
		"pool, before the dial": {func(s *script) {
			s.pool(connectionCreated, 1)
			s.close(1, "error", refused)
		}, profiler.RolePool, profiler.Failed, refused},
		"pool, without a reason": {func(s *script) {
			s.pool(connectionCreated, 1)
			s.close(1, "poolClosed", nil)
		}, profiler.RolePool, profiler.Canceled, context.Canceled},
		"pool, interrupted by another goroutine": {func(s *script) {
			s.pool(connectionCreated, 1)
			var wg sync.WaitGroup
			wg.Go(func() { s.close(1, "stale", refused) })
			wg.Wait()
			if c := s.dial(); c != nil || s.plain != 1 {
				s.t.Errorf("the dial of an interrupted create was watched: %v", c.Role())
			}
			s.pool(connectionReady, 1)
		}, profiler.RolePool, profiler.Failed, refused},
		"pool, interrupted, and its goroutine gone": {func(s *script) {
			var wg sync.WaitGroup
			wg.Go(func() { s.pool(connectionCreated, 1) })
			wg.Wait()
			s.close(1, "stale", refused)
			s.pool(poolClosed, 0)
		}, profiler.RolePool, profiler.Failed, refused},
		"pool, abandoned": {func(s *script) {
			s.pool(connectionCreated, 1)
			s.pool(connectionCreated, 2)
			s.pool(connectionReady, 2)
			s.close(2, "idle", nil)
		}, profiler.RolePool, profiler.Failed, errAbandoned},
		"heartbeat": {func(s *script) {
			s.heartbeat(HeartbeatStarted, false, nil)
			s.dial()
			s.heartbeat(HeartbeatFailed, false, context.DeadlineExceeded)
		}, profiler.RoleMonitor, profiler.Timeout, context.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			tt.play(s)
			e := s.p.Report().Endpoint(here, tt.role)
			if e == nil || e.Failed != 1 {
				t.Fatalf("report %+v", e)
			}
			for _, ev := range s.events {
				if cr := ev.Conn.Create(); cr.Err != nil && (!errors.Is(cr.Err, tt.is) || cr.Outcome != tt.outcome) {
					t.Errorf("failed with %v, outcome %v", cr.Err, cr.Outcome)
				}
			}
			s.empty()
		})
	}
}

func TestCMAPMapsCloseReasons(t *testing.T) {
	s := newScript(t)
	for _, reason := range []string{"idle", "stale", "error", "poolClosed", "", "something new"} {
		s.create(1)
		s.close(1, reason, nil)
	}
	got := s.p.Report().Endpoint(here, profiler.RolePool).ClosedBy
	want := map[string]int64{"idle_time": 1, "stale": 1, "error": 1, "pool_closed": 1, "unknown": 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("closed by %v, want %v", got, want)
	}
	s.empty()
}

func TestCMAPJoinsNamesOnTheCallersGoroutineOnly(t *testing.T) {
	s := newScript(t)
	a, b := s.create(1), s.create(2)
	var wg sync.WaitGroup
	s.out(1, 0)
	wg.Go(func() {
		s.out(2, 0)
		s.command("find", here+"[-9]", 0)
		s.in(2)
		s.command("find", here+"[-8]", 0) // a command of nobody's: this goroutine has nothing checked out
	})
	wg.Wait()
	s.command("find", "other"+here+"[-7]", 0) // not of this address
	s.command("find", here+"[-8]", 0)
	wg.Go(func() { s.command("find", here+"[-8]", 0) }) // by now the name is known everywhere
	wg.Wait()
	s.in(1)

	ops := s.operations()
	if len(ops) != 3 || ops[0].Conn != b || ops[1].Conn != a || ops[2].Conn != a {
		t.Errorf("operations %v", ops)
	}
	if got := s.m.Stats(); got.Unjoined != 2 || got.Pending != 0 {
		t.Errorf("%+v", got)
	}
	// A failed use without any command leaves nothing to join.
	s.create(3)
	s.out(3, 0)
	s.in(3)
	s.command("find", here+"[-12]", 0)
	if got := s.m.Stats(); got.Unjoined != 3 || got.Pending != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCMAPKeepsAnInterruptedConnectionUntilItsUserIsDone(t *testing.T) {
	s := newScript(t)
	c := s.create(1)
	s.out(1, 0)
	s.close(1, "stale", nil)
	s.m.Command(context.Background(), &CommandEvent{ConnectionID: here + "[-3]", Name: "find", Err: net.ErrClosed})
	s.in(1)
	if ops := s.operations(); len(ops) != 1 || ops[0].Conn != c || ops[0].Op.Outcome != profiler.Failed {
		t.Errorf("operations %v", ops)
	}
	s.empty()
}

func TestCMAPDoesNotCountTheDriversOwnCommands(t *testing.T) {
	s := newScript(t)
	c := s.create(1)
	s.out(1, 0)
	for _, name := range []string{"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "ping", "endSessions"} {
		s.command(name, here+"[-1]", time.Millisecond)
	}
	if e := s.p.Report().Endpoint(here, profiler.RolePool); c.Ops() != 0 || e.Excluded != 1 { // endSessions
		t.Errorf("%d operations, %d excluded", c.Ops(), e.Excluded)
	}
	madeUp := []byte("\x0d\x00\x00\x00\x10ok\x00\x01\x00\x00\x00\x00")
	s.m.Command(context.Background(), &CommandEvent{ConnectionID: here + "[-1]", Name: "insert", Reply: madeUp})
	s.m.Command(context.Background(), &CommandEvent{ConnectionID: here + "[-1]", Name: "dropDatabase", Reply: madeUp})
	e := s.p.Report().Endpoint(here, profiler.RolePool)
	first, reused := e.Queries()
	if c.Ops() != 2 || e.Excluded != 2 || first != 0 || reused != 1 {
		t.Errorf("%d operations: %d first, %d reused, %d excluded", c.Ops(), first, reused, e.Excluded)
	}
}

func TestCMAPKeepsNothingOfWhatIsOver(t *testing.T) {
	s := newScript(t)
	s.p.Sinks = nil
	for i := range 20_000 {
		id := uint64(i + 1)
		s.pool("ConnectionCheckOutStarted", 0)
		s.pool(connectionCreated, id)
		s.dial()
		if i%5 == 0 {
			s.pool("ConnectionCheckOutFailed", 0)
			s.close(id, "error", net.ErrClosed)
			continue
		}
		s.pool(connectionReady, id)
		s.out(id, 0)
		if i%5 == 1 { // no command at all
			s.in(id)
			s.close(id, "stale", nil)
			continue
		}
		s.command("find", fmt.Sprintf("%s[-%d]", here, id), 0)
		if i%5 == 2 {
			s.close(id, "stale", nil)
			s.in(id)
			continue
		}
		s.in(id)
		s.close(id, "idle", nil)
	}
	s.empty()
}

func TestCMAPIsSilentForADisabledProfiler(t *testing.T) {
	s := newScript(t)
	s.p.Disable()
	s.pool(connectionCreated, 1)
	s.p.Enable() // on again before the dial: the connection stays unwatched
	if c := s.dial(); c != nil || s.plain != 1 {
		t.Errorf("watched the dial of a connection that was created while off")
	}
	s.pool(connectionReady, 1)
	s.out(1, 0)
	s.command("find", here+"[-1]", 0)
	s.in(1)
	s.close(1, "idle", nil)
	s.p.Disable()
	s.heartbeat(HeartbeatStarted, false, nil)
	if c := s.dial(); c != nil || s.plain != 2 {
		t.Errorf("watched a dial while off")
	}
	s.heartbeat(HeartbeatSucceeded, false, nil)
	if len(s.events) != 0 || len(s.p.Report().Endpoints) != 0 {
		t.Errorf("recorded %v", s.events)
	}
	s.empty()
}

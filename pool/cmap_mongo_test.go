package pool_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// gone waits until no connection of the profiler is live: v2.10.0 closes the monitor's after Disconnect has returned.
func gone(t *testing.T, p *profiler.Profiler) profiler.Report {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		r, live := p.Report(), int64(0)
		for _, e := range r.Endpoints {
			live += e.Live
		}
		if live == 0 {
			return r
		}
		if time.Now().After(deadline) {
			for _, c := range p.Conns() {
				t.Errorf("a connection is live: %s %s, with %+v", c.Role(), c.Kind(), c.Create())
			}
			return r
		}
	}
}

// C14: a server without streaming has two connections of a client with one caller, one with streaming three: the monitors' are not the pool's.
func TestMongoMonitorsAreNotOfThePool(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		for name, tt := range map[string]struct {
			streaming bool
			kinds     map[string]int
		}{
			"plain":     {false, map[string]int{"heartbeat": 1}},
			"streaming": {true, map[string]int{"heartbeat": 1, "rtt": 1}},
		} {
			t.Run(name, func(t *testing.T) {
				s := mongotest.Start(t, mongotest.Options{Streaming: tt.streaming})
				o := newOracle()
				p := &profiler.Profiler{}
				c := d.connect(t, p, s.URI(""), user{dial: o.dial})
				if err := c.find(testContext(t), 1); err != nil {
					t.Fatal(err)
				}
				s.WaitFor(t, func(logs []mongotest.ConnLog) bool { // until what the monitors do when nothing happens
					awaiting, spoke := !tt.streaming, 0
					for _, l := range logs {
						if n := len(l.Commands); n > 0 {
							awaiting = awaiting || l.Commands[n-1].Awaited
							spoke++
						}
					}
					return awaiting && spoke == 1+len(tt.kinds)
				})
				c.close()
				kinds := make(map[string]int)
				for _, d := range o.dials {
					if d.conn.Role() == profiler.RoleMonitor {
						kinds[d.conn.Kind()]++
					} else if d.conn.Role() != profiler.RolePool {
						t.Errorf("a connection of role %v", d.conn.Role())
					}
				}
				if kinds["heartbeat"] != tt.kinds["heartbeat"] || kinds["rtt"] != tt.kinds["rtt"] || len(o.dials) != 1+len(tt.kinds) {
					t.Errorf("%d dials, monitors %v, want %v", len(o.dials), kinds, tt.kinds)
				}
				r := gone(t, p)
				pool, monitor := r.Endpoint(s.Addr(), profiler.RolePool), r.Endpoint(s.Addr(), profiler.RoleMonitor)
				if pool.Created != 1 || pool.Live != 0 || pool.ClosedBy["pool_closed"]+pool.ClosedBy["stale"] != 1 {
					t.Errorf("pool: %d created, %d live, closed by %v", pool.Created, pool.Live, pool.ClosedBy)
				}
				// Closing a client cuts its heartbeat, for which a driver may clear the pool. The close may have come before the round-trip-time monitor had read its first answer, and a driver that is being closed
				// may try to dial once more.
				if n := int(monitor.Created); n > len(tt.kinds) || n+int(monitor.Failed) < len(tt.kinds) || monitor.Live != 0 {
					t.Errorf("monitors: %d created, %d failed, want %d", monitor.Created, monitor.Failed, len(tt.kinds))
				}
				if first, reused := pool.Queries(); first != 1 || reused != 0 {
					t.Errorf("%d first and %d reused commands", first, reused)
				}
			})
		}
	})
}

func TestMongoLoginAndCommandsOfOneConnection(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{
			Users: map[string]string{"u": "p"}, Script: mongotest.On("find", mongotest.Step{Delay: 3 * time.Millisecond}),
		})
		o := newOracle()
		p := &profiler.Profiler{Sinks: []profiler.Sink{o}}
		c := d.connect(t, p, s.UserURI("u", "p", "maxPoolSize=1"), user{dial: o.dial})
		ctx := o.operation(testContext(t))
		var tl profiler.Timeline
		ctx = profiler.WithSink(ctx, &tl)
		for i := range 3 {
			if err := c.insert(ctx, i); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := c.findAll(ctx, 2); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		if err := c.ping(ctx); err != nil {
			t.Fatal(err)
		}
		c.close()
		var names []string
		for i, e := range tl.Events() {
			if e.Kind != profiler.KindOperation {
				continue
			}
			names = append(names, e.Op.Name)
			if e.Op.N != uint64(i+1) || e.Op.Namespace != "test" || !e.Op.WaitKnown || (e.Op.Idle > 0) != (i > 0) {
				t.Errorf("%s: number %d in %q, wait known %v, idle %v", e.Op.Name, e.Op.N, e.Op.Namespace, e.Op.WaitKnown, e.Op.Idle)
			}
			if d := e.Op.End.Sub(e.Op.Start); e.Op.Name == "find" && d < 3*time.Millisecond {
				t.Errorf("find took %v", d)
			}
		}
		if len(names) != 5 || names[0] != "insert" || names[3] != "find" || names[4] != "getMore" {
			t.Errorf("operations %q", names)
		}
		first := tl.Events()[0]
		cr := first.Conn.Create()
		for _, ph := range []profiler.Phase{profiler.Connect, profiler.Hello, profiler.Auth} {
			if !cr.Phases[ph].Present {
				t.Errorf("no %v in %+v", ph, cr.Phases)
			}
		}
		if first.Op.Wait < cr.Duration || first.Op.Queued > first.Op.Wait-cr.Duration+time.Millisecond {
			t.Errorf("waited %v, queued %v, for a create of %v", first.Op.Wait, first.Op.Queued, cr.Duration)
		}
	})
}

// Only two connections of a pool are made at a time: later callers queue, with a nearly empty pool.
func TestMongoQueueForCreates(t *testing.T) {
	const delay = 100 * time.Millisecond
	slowLogin := func(c mongotest.Call) mongotest.Step {
		if c.Speculative {
			return mongotest.Step{Delay: delay}
		}
		if c.Command == "find" {
			return mongotest.Step{Delay: 5 * delay}
		}
		return mongotest.Step{}
	}
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Users: map[string]string{"u": "p"}, Script: slowLogin})
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, s.UserURI("u", "p", ""), user{})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if err := c.find(testContext(t), 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c.close()
		queued := make([]int, 3)
		for _, e := range tl.Events() {
			if e.Kind != profiler.KindOperation {
				continue
			}
			if e.Op.N != 1 || !e.Op.WaitKnown || e.Op.Wait < delay {
				t.Errorf("number %d, wait %v", e.Op.N, e.Op.Wait)
			}
			if i := int(e.Op.Queued / delay); i < len(queued) {
				queued[i]++
			}
		}
		if queued[0] < 1 || queued[0] == 6 { // two at once, as far as both come at once; the others waited for a create of someone else's
			t.Errorf("queued for 0, 1, 2 creates of others: %v callers", queued)
		}

		r := p.Report()
		if w := r.Pools[0]; w.MakingWaitCount < 1 || w.MakingWaitCount > 6 || w.WaitCount != 0 || w.MaxMaking != 2 && w.Live > 0 {
			t.Errorf("%d waited for others' creates, %d for a full pool", w.MakingWaitCount, w.WaitCount)
		}
		if f := finding(r, "establishment_limited"); f == nil || strings.Contains(f.Advice, "maxPoolSize") || finding(r, "pool_saturated") != nil {
			t.Errorf("findings %+v", r.Findings)
		}

		// A caller who gives up does not end the create, which is later used by someone else.
		p2 := &profiler.Profiler{}
		c = d.connect(t, p2, s.UserURI("u", "p", ""), user{})
		if err := c.ping(testContext(t)); err != nil { // the monitor is there, and one connection
			t.Fatal(err)
		}
		var hold sync.WaitGroup
		hold.Go(func() { _ = c.find(testContext(t), 1) })
		s.WaitFor(t, func(logs []mongotest.ConnLog) bool { return logs[len(logs)-1].Count("find") == 1 })
		ctx, cancel := context.WithTimeout(context.Background(), delay/2)
		defer cancel()
		if err := c.find(ctx, 1); err == nil {
			t.Error("a connection in half the time it takes")
		}
		hold.Wait()
		c.close()
		e := p2.Report().Endpoint(s.Addr(), profiler.RolePool)
		if e.Created != 2 || e.Failed != 0 || e.Live != 0 {
			t.Errorf("%d created, %d failed, %d live", e.Created, e.Failed, e.Live)
		}
		if w := e.Measure(profiler.MeasureWait, profiler.Timeout); w == nil || w.Count != 1 || w.Sum == 0 {
			t.Errorf("the caller waited %+v", w)
		}
	})
}

// The first find's connection is cut; the driver repeats it on another. That is one operation of two attempts, and none failed.
func TestMongoRetryIsOneOperation(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{
			Users: map[string]string{"u": "p"}, Script: mongotest.OnNth("find", 1, mongotest.Step{Close: true}),
		})
		o := newOracle()
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{o, &tl}}
		c := d.connect(t, p, s.UserURI("u", "p", ""), user{dial: o.dial, command: o.command})
		if err := c.find(o.operation(testContext(t)), 1); err != nil {
			t.Fatal(err)
		}
		r := p.Report()
		e := r.Endpoint(s.Addr(), profiler.RolePool)
		if w := r.Pools[0]; w.Cleared != 1 || w.ClearedFor != "closed" || finding(r, "pool_churn") != nil {
			t.Errorf("cleared %d times for %q; findings %+v", w.Cleared, w.ClearedFor, r.Findings)
		}
		if e.Created != 2 || e.Created != e.Live+e.Closed || e.ClosedBy["error"] != 1 || e.Repeated != 1 {
			t.Errorf("%d created, %d live, closed by %v, %d repeated", e.Created, e.Live, e.ClosedBy, e.Repeated)
		}
		first, reused := e.Queries()
		if first != 1 || reused != 0 || e.Measure(profiler.MeasureFirstQuery, profiler.Failed) != nil {
			t.Errorf("%d first, %d reused operations, measures %+v", first, reused, e.Measures)
		}
		var second *profiler.Create
		for _, ev := range tl.Events() {
			switch {
			case ev.Kind == profiler.KindCreate && ev.Conn.Role() == profiler.RolePool:
				second = ev.Conn.Create()
			case ev.Kind == profiler.KindOperation:
				op := ev.Op
				if op.Attempts != 2 || op.N != 1 || op.Err != nil || op.Lost < second.Duration || ev.Conn.Create() != second {
					t.Errorf("%d attempts, number %d, lost %v, error %v", op.Attempts, op.N, op.Lost, op.Err)
				}
			}
		}
		c.close()
		if r := o.compare(t, s.Conns()); r.wrong != 0 || r.commands != 2 || r.missing != 0 {
			t.Errorf("%v", r)
		}
		if e := p.Report().Endpoint(s.Addr(), profiler.RolePool); e.Live != 0 || e.Closed != 2 {
			t.Errorf("%d live, %d closed", e.Live, e.Closed)
		}
	})
}

// A read that fails twice is one failed operation: the driver repeats once. A client that doesn't repeat has one failed attempt.
func TestMongoRetryThatFails(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		for params, attempts := range map[string]int{"": 2, "retryReads=false": 1} {
			s := mongotest.Start(t, mongotest.Options{Script: mongotest.On("find", mongotest.Step{Close: true})})
			var tl profiler.Timeline
			p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
			c := d.connect(t, p, s.URI(params), user{})
			for range attempts { // the caller's own repetition is another operation, though its context is the same
				if err := c.find(context.Background(), 1); err == nil {
					t.Error("no error")
				}
			}
			c.close()
			n := 0
			for _, e := range tl.Events() {
				if e.Kind != profiler.KindOperation {
					continue
				}
				n++
				if e.Op.Attempts != attempts || e.Op.Outcome != profiler.Failed {
					t.Errorf("%q: %d attempts, outcome %v", params, e.Op.Attempts, e.Op.Outcome)
				}
			}
			if n != attempts {
				t.Errorf("%q: %d operations", params, n)
			}
		}
	})
}

// A client for each piece of work: no pool shows anything, the target's counts do.
func TestMongoClientForEachCall(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{})
		p := &profiler.Profiler{}
		for range 20 {
			c := d.connect(t, p, s.URI(""), user{})
			if err := c.find(testContext(t), 1); err != nil {
				t.Fatal(err)
			}
			c.close()
		}
		r := gone(t, p)
		pool, monitor := r.Endpoint(s.Addr(), profiler.RolePool), r.Endpoint(s.Addr(), profiler.RoleMonitor)
		first, reused := pool.Queries()
		if pool.Created != 20 || monitor.Created != 20 || first != 20 || reused != 0 || pool.Live != 0 || monitor.Live != 0 {
			t.Errorf("pool: %d created, %d live; monitor: %d created, %d live; %d first, %d reused",
				pool.Created, pool.Live, monitor.Created, monitor.Live, first, reused)
		}
		if finding(r, "pool_cleared") != nil {
			t.Errorf("the end of a client was taken for the server's failure: %+v", r.Pools[0])
		}
		if w := r.Pools[0]; w.Name != s.Addr() || w.Opened != 20 || w.Live != 0 {
			t.Errorf("%d pools were opened, %d are live", w.Opened, w.Live)
		}
		if f := finding(r, "pool_churn"); f == nil || !strings.Contains(f.Advice, "build the client once") {
			t.Errorf("findings %+v", r.Findings)
		}
	})
}

// finding is the finding of that ID, nil if there is none.
func finding(r profiler.Report, id string) *profiler.Finding {
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

func TestMongoUnacknowledgedWritesAreNoLatencies(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{})
		p := &profiler.Profiler{}
		c := d.connect(t, p, s.URI("maxPoolSize=1"), user{})
		if err := c.unacknowledged(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		if err := c.find(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		c.close()
		e := p.Report().Endpoint(s.Addr(), profiler.RolePool)
		first, reused := e.Queries()
		if e.Excluded != 2 || first != 0 || reused != 1 { // the write and endSessions
			t.Errorf("%d excluded, %d first, %d reused", e.Excluded, first, reused)
		}
	})
}

func TestMongoFailedDialAndFailedLogin(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Users: map[string]string{"u": "p"}})
		p := &profiler.Profiler{}
		c := d.connect(t, p, s.UserURI("u", "wrong", ""), user{})
		if err := c.find(testContext(t), 1); err == nil {
			t.Error("logged in with a wrong password")
		}
		c.close()
		e := gone(t, p).Endpoint(s.Addr(), profiler.RolePool)
		if e.Failed < 1 || e.Created != 0 || e.Live != 0 || e.FailedIn["auth"] != e.Failed {
			t.Errorf("%d failed in %v, %d live", e.Failed, e.FailedIn, e.Live)
		}

		var failing atomic.Bool
		failing.Store(true)
		p = &profiler.Profiler{}
		c = d.connect(t, p, s.UserURI("u", "p", "serverSelectionTimeoutMS=100"), user{
			dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if failing.Load() {
					return nil, net.ErrClosed
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		})
		if err := c.find(testContext(t), 1); err == nil {
			t.Error("no error without a connection")
		}
		failing.Store(false)
		c.close()
		m := gone(t, p).Endpoint(s.Addr(), profiler.RoleMonitor)
		if m.Failed < 1 || m.FailedIn["connect"] != m.Failed || m.Live != 0 {
			t.Errorf("monitor: %d failed in %v, %d live", m.Failed, m.FailedIn, m.Live)
		}
	})
}

package pool_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// operations are the operations that a timeline saw end.
func operations(tl *profiler.Timeline) (ops []profiler.Event) {
	for _, e := range tl.Events() {
		if e.Kind == profiler.KindOperation {
			ops = append(ops, e)
		}
	}
	return ops
}

// Three members, one of them the primary: each has its monitor, and a read from a secondary makes a connection there only.
func TestMongoReplicaSetWithReadsFromASecondary(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		var servers []*mongotest.Server
		var hosts []string
		for range 3 {
			s := mongotest.Start(t, mongotest.Options{})
			servers, hosts = append(servers, s), append(hosts, s.Addr())
		}
		for i, s := range servers {
			s.SetReplicaSet(&mongotest.ReplicaSet{Name: "rs", Hosts: hosts, Primary: hosts[0], Secondary: i > 0})
		}
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, "mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs", user{prefer: true})
		if err := c.insert(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if err := c.find(testContext(t), 1); err != nil {
				t.Fatal(err)
			}
		}
		c.close()
		r := gone(t, p)
		for _, e := range operations(&tl) {
			if primary := e.Conn.Endpoint().Address == hosts[0]; primary != (e.Op.Name == "insert") {
				t.Errorf("%s on %s", e.Op.Name, e.Conn.Endpoint().Address)
			}
		}
		for _, h := range hosts {
			if m := r.Endpoint(h, profiler.RoleMonitor); m == nil || m.Created+m.Failed != 1 {
				t.Errorf("%s: monitor %+v", h, m)
			}
		}
		if n := len(operations(&tl)); n != 5 || len(r.Pools) != 3 {
			t.Errorf("%d operations, %d pools", n, len(r.Pools))
		}
	})
}

// Behind a load balancer there are no heartbeats, and a cursor keeps its connection.
func TestMongoLoadBalanced(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{LoadBalanced: true})
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, s.URI("loadBalanced=true"), user{})
		for i := range 3 {
			if err := c.insert(testContext(t), i); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := c.findAll(testContext(t), 2); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		c.close()
		r := gone(t, p)
		if m := r.Endpoint(s.Addr(), profiler.RoleMonitor); m != nil {
			t.Errorf("monitor %+v", m)
		}
		e := r.Endpoint(s.Addr(), profiler.RolePool)
		first, reused := e.Queries()
		if e.Created != 1 || first != 1 || reused != 4 {
			t.Errorf("%d created, %d first, %d reused", e.Created, first, reused)
		}
		ops := operations(&tl)
		more := ops[len(ops)-1].Op
		find := ops[len(ops)-2].Op
		if more.Name != "getMore" || more.WaitKnown || find.Cursor == 0 || find.Collection != "things" || more.Collection != "things" || more.Cursor != 0 {
			t.Errorf("find %+v, then %+v: the cursor's connection is waited for once", find, more)
		}
		if e.Excluded != 1 { // endSessions
			t.Errorf("%d excluded", e.Excluded)
		}
		if use := e.Measure(profiler.MeasureUse, profiler.OK); use == nil || use.Count != 5 { // three inserts, the cursor, endSessions
			t.Errorf("used %+v times", use)
		}
	})
}

// What the address looks like makes no difference.
func TestMongoAddresses(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		for name, tt := range map[string]struct {
			address, params string
			transport       profiler.Transport
		}{
			"direct": {"", "directConnection=true", profiler.TransportTCP},
			"IPv6":   {"[::1]:0", "", profiler.TransportTCP},
			"unix":   {"/", "", profiler.TransportUnix},
		} {
			t.Run(name, func(t *testing.T) {
				if tt.address == "/" { // driver 1.17 dials the path in lower case
					tt.address = filepath.Join(lowerDir(t), "m.sock")
				}
				s := mongotest.Start(t, mongotest.Options{Address: tt.address})
				var tl profiler.Timeline
				p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
				c := d.connect(t, p, s.URI(tt.params), user{})
				for range 2 {
					if err := c.find(testContext(t), 1); err != nil {
						t.Fatal(err)
					}
				}
				c.close()
				r := gone(t, p)
				e := r.Endpoint(s.Addr(), profiler.RolePool)
				first, reused := e.Queries()
				if e == nil || e.Created != 1 || first != 1 || reused != 1 {
					t.Fatalf("%d first, %d reused of %+v", first, reused, r.Endpoints)
				}
				cr := operations(&tl)[0].Conn.Create()
				if cr.Wire.Transport != tt.transport || !cr.Phases[profiler.Connect].Present {
					t.Errorf("%v, phases %v", cr.Wire.Transport, cr.Phases)
				}
			})
		}
	})
}

// A server that loses all its connections: the monitor's is made anew, the pool is cleared, and all is counted once.
func TestMongoServerKilledAndBack(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Streaming: true})
		p := &profiler.Profiler{}
		c := d.connect(t, p, s.URI("heartbeatFrequencyMS=500"), user{})
		if err := c.find(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		s.Kill(nil)
		worksAgain(t, c)
		c.close()
		e := gone(t, p).Endpoint(s.Addr(), profiler.RolePool)
		if e.Created < 2 || e.Closed != e.Created || e.ClosedBy["unknown"] != 0 {
			t.Errorf("%d created, %d closed by %v", e.Created, e.Closed, e.ClosedBy)
		}
		if n := succeeded(e); n != 2 {
			t.Errorf("%d operations succeeded, two did", n)
		}
	})
}

// succeeded counts the operations that did.
func succeeded(e *profiler.EndpointReport) (n uint64) {
	for _, m := range []profiler.Measure{profiler.MeasureFirstQuery, profiler.MeasureReusedQuery} {
		if r := e.Measure(m, profiler.OK); r != nil {
			n += r.Count
		}
	}
	return n
}

// worksAgain does what a program does whose connections were cut: it tries until it works. The driver repeats once, and may meet the pool
// that the monitor's own loss has just cleared.
func worksAgain(t *testing.T, c client) {
	t.Helper()
	ctx := testContext(t)
	for {
		err := c.find(ctx, 1)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// The time until a server is known is no wait for the pool.
func TestMongoServerSelectionIsApart(t *testing.T) {
	const delay = 40 * time.Millisecond
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Script: mongotest.OnNth("hello", 1, mongotest.Step{Delay: delay})})
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, s.URI(""), user{})
		for range 2 {
			if err := c.find(profiler.Asked(testContext(t)), 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.find(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		ops := operations(&tl)
		first, second, third := ops[0].Op, ops[1].Op, ops[2].Op
		if !first.SelectionKnown || first.Selection < delay/2 || first.Wait >= delay || !first.WaitKnown {
			t.Errorf("first: selection %v, wait %v", first.Selection, first.Wait)
		}
		if !second.SelectionKnown || second.Selection >= delay || third.SelectionKnown {
			t.Errorf("second: selection %v; third, without a mark, known %v", second.Selection, third.SelectionKnown)
		}
	})
}

// A server that is gone and comes back under its address, and one that a replica set loses and gets back: its pools are closed and made
// anew, and their connections, which are numbered from 1 again, are each reported once.
func TestMongoServerAddedBack(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		a, b := mongotest.Start(t, mongotest.Options{Streaming: true}), mongotest.Start(t, mongotest.Options{Streaming: true})
		members := func(hosts ...string) {
			for i, s := range []*mongotest.Server{a, b} {
				s.SetReplicaSet(&mongotest.ReplicaSet{Name: "rs", Hosts: hosts, Primary: a.Addr(), Secondary: i > 0})
			}
		}
		members(a.Addr(), b.Addr())
		var tl profiler.Timeline
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, "mongodb://"+a.Addr()+","+b.Addr()+"/?replicaSet=rs&heartbeatFrequencyMS=500", user{prefer: true})
		pools := func(want int64) {
			t.Helper()
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				for _, w := range p.Report().Pools {
					if w.Name == b.Addr() && w.Opened == want && (w.Live > 0) == (want != 0) {
						return
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("pools %+v, want %d opened for %s", p.Report().Pools, want, b.Addr())
				}
			}
		}
		worksAgain(t, c)
		pools(1)
		members(a.Addr()) // b is lost
		for deadline := time.Now().Add(20 * time.Second); live(p, b.Addr()) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the pool of a server that is gone stays")
			}
		}
		members(a.Addr(), b.Addr())
		pools(2)
		worksAgain(t, c)
		c.close()
		r := gone(t, p)
		e := r.Endpoint(b.Addr(), profiler.RolePool)
		if e.Created < 2 || e.Closed != e.Created || e.ClosedBy["unknown"] != 0 || succeeded(e) != 2 || r.Dropped.Operations != 0 {
			t.Errorf("%d created, closed by %v, %d operations succeeded, %d untied", e.Created, e.ClosedBy, succeeded(e), r.Dropped.Operations)
		}
		var first []uint64
		for _, ev := range operations(&tl) {
			if ev.Op.Err == nil {
				first = append(first, ev.Op.N)
			}
		}
		if len(first) != 2 || first[0] != 1 || first[1] != 1 {
			t.Errorf("numbers of the operations on their connections: %v", first)
		}
	})
}

// live is how many pools are open at an address.
func live(p *profiler.Profiler, address string) (n int64) {
	for _, w := range p.Report().Pools {
		if w.Name == address {
			n += int64(w.Live)
		}
	}
	return n
}

// A command's connection is cut: both drivers clear the pool, and what was idle there is closed as stale. The report tells how often and for
// what, and the closes that follow have the cause.
func TestMongoPoolCleared(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Users: map[string]string{"u": "p"}})
		cleared := 0
		var mu sync.Mutex
		var caused atomic.Int32
		p := &profiler.Profiler{Sinks: []profiler.Sink{sinkFunc(func(e profiler.Event) {
			if e.Kind == profiler.KindClose && e.Close.Reason == profiler.CloseStale && errors.Is(e.Close.Err, io.EOF) {
				caused.Add(1)
			}
		})}}
		c := d.connect(t, p, s.UserURI("u", "p", "retryReads=false"), user{event: func(kind string, _ uint64) {
			if kind == "ConnectionPoolCleared" {
				mu.Lock()
				cleared++
				mu.Unlock()
			}
		}})
		both := make(chan struct{})
		release := sync.OnceFunc(func() { close(both) })
		s.SetScript(func(call mongotest.Call) mongotest.Step { // two finds at once, for two connections
			if call.Command == "find" {
				if call.N == 2 {
					release()
				}
				<-both
			}
			return mongotest.Step{}
		})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := c.find(testContext(t), 1); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s.SetScript(mongotest.OnNth("find", 3, mongotest.Step{Close: true}))
		if err := c.find(testContext(t), 1); err == nil {
			t.Error("the connection was cut")
		}
		worksAgain(t, c)
		w := p.Report().Pools[0]
		c.close()
		r := gone(t, p)
		if w.Cleared != 1 || w.ClearedFor != "closed" || r.Pools[0].Cleared != 1 {
			t.Errorf("the pool was cleared %d times for %q, %d times in the end; want once, because it was closed", w.Cleared, w.ClearedFor, r.Pools[0].Cleared)
		}
		if f := finding(r, "pool_cleared"); f == nil || !strings.Contains(f.Evidence, "once, the last time after an error of class closed; 1 connections were closed as stale") {
			t.Errorf("finding %+v", f)
		}
		p.Flush()
		e := r.Endpoint(s.Addr(), profiler.RolePool)
		if n := caused.Load(); n < 1 {
			t.Errorf("%d closes have the cause of the pool's clearing, of %v", n, e.ClosedBy)
		}
		mu.Lock()
		defer mu.Unlock()
		if cleared < 1 || e.ClosedBy["error"] != 1 || e.ClosedBy["stale"] < 1 || e.Closed != e.Created || e.Created < 3 {
			t.Errorf("cleared %d times, %d created, closed by %v", cleared, e.Created, e.ClosedBy)
		}
	})
}

type sinkFunc func(profiler.Event)

func (f sinkFunc) Record(_ context.Context, e profiler.Event) { f(e) }

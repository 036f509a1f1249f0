package pool_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// What the program had in its options goes on working.
func TestMongoUsersDialerAndMonitorsStay(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		record := func(p *profiler.Profiler) (kinds map[string]int, order []string) {
			s := mongotest.Start(t, mongotest.Options{})
			var mu sync.Mutex
			var commands, dials int
			kinds = make(map[string]int)
			u := user{
				dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					mu.Lock()
					dials++
					mu.Unlock()
					return new(net.Dialer).DialContext(ctx, network, address)
				},
				event: func(kind string, id uint64) {
					mu.Lock()
					defer mu.Unlock()
					kinds[kind]++
					if id == 1 {
						order = append(order, kind)
					}
				},
				command: func(context.Context, string, int64, bool) {
					mu.Lock()
					defer mu.Unlock()
					commands++
					order = append(order, "command")
				},
			}
			c := d.connect(t, p, s.URI(""), u)
			for range 2 {
				if err := c.find(testContext(t), 1); err != nil {
					t.Fatal(err)
				}
			}
			c.close()
			mu.Lock()
			defer mu.Unlock()
			kinds["dial"], kinds["command"] = dials, commands
			return kinds, order
		}
		// A driver that closes now and then does without endSessions, with and without connprof: compare runs that have it.
		whole := func(p func() *profiler.Profiler) (kinds map[string]int, order []string) {
			for range 20 {
				if kinds, order = record(p()); kinds["command"] == 3 {
					break
				}
			}
			return kinds, order
		}
		wantKinds, wantOrder := whole(func() *profiler.Profiler { return nil })
		gotKinds, gotOrder := whole(func() *profiler.Profiler { return new(profiler.Profiler) })
		if wantKinds["dial"] != 2 || wantKinds["ServerOpening"] != 1 || wantKinds["ServerHeartbeatSucceeded"] != 1 {
			t.Fatalf("without connprof: %v", wantKinds)
		}
		for _, k := range []string{"dial", "command", "ServerOpening", "ServerHeartbeatStarted", "ServerHeartbeatSucceeded",
			"ConnectionCheckOutStarted", "ConnectionCreated", "ConnectionReady", "ConnectionCheckedOut", "ConnectionCheckedIn", "ConnectionClosed", "ConnectionPoolClosed"} {
			if gotKinds[k] != wantKinds[k] {
				t.Errorf("%s: %d times, without connprof %d times", k, gotKinds[k], wantKinds[k])
			}
		}
		if len(gotOrder) != len(wantOrder) {
			t.Fatalf("order %v, without connprof %v", gotOrder, wantOrder)
		}
		for i := range wantOrder {
			if gotOrder[i] != wantOrder[i] {
				t.Fatalf("order %v, without connprof %v", gotOrder, wantOrder)
			}
		}
	})
}

// A dialer around ours that dials on a goroutine of its own hides what the dial is for. Nothing is guessed; commands still find their
// connection.
func TestMongoDialOnAForeignGoroutine(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{})
		o := newOracle()
		p := &profiler.Profiler{}
		c := d.connect(t, p, s.URI(""), user{dial: o.dial, around: func(inner dialer) dialer {
			return dialFunc(func(ctx context.Context, network, address string) (nc net.Conn, err error) {
				var wg sync.WaitGroup
				wg.Go(func() { nc, err = inner.DialContext(ctx, network, address) })
				wg.Wait()
				return nc, err
			})
		}})
		if err := c.find(testContext(t), 1); err != nil {
			t.Fatal(err)
		}
		c.close()
		for _, d := range o.dials {
			if d.conn.Role() != profiler.RoleUnattributed {
				t.Errorf("role %v", d.conn.Role())
			}
		}
		r := gone(t, p)
		pool, un := r.Endpoint(s.Addr(), profiler.RolePool), r.Endpoint(s.Addr(), profiler.RoleUnattributed)
		if first, _ := pool.Queries(); len(o.dials) != 2 || pool.Created != 1 || first != 1 {
			t.Errorf("%d dials, %d created, %d commands", len(o.dials), pool.Created, first)
		}
		if un.Created != 2 || un.Live != 0 {
			t.Errorf("unattributed: %d created, %d live", un.Created, un.Live)
		}
	})
}

func TestMongoProfilerOffAndOn(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{})
		o := newOracle()
		p := &profiler.Profiler{}
		p.Disable()
		c := d.connect(t, p, s.URI(""), user{dial: o.dial})
		for range 2 {
			if err := c.find(testContext(t), 1); err != nil {
				t.Fatal(err)
			}
		}
		if r := p.Report(); len(r.Endpoints) != 0 || o.dials[0].conn != nil {
			t.Errorf("recorded while off: %+v", r)
		}
		p.Enable()
		s.Kill(nil)
		for range 2 {
			worksAgain(t, c)
		}
		c.close()
		e := p.Report().Endpoint(s.Addr(), profiler.RolePool)
		if n := succeeded(e); e.Created < 1 || n != 2 || e.Closed != e.Created || e.Live != 0 {
			t.Errorf("%d created, %d closed, %d operations succeeded, %d live", e.Created, e.Closed, n, e.Live)
		}
	})
}

package profiler

import (
	"context"
	"strings"
	"testing"
	"time"
)

// after runs an operation on c that was idle for d before it.
func after(c *Conn, d, took time.Duration, err error) {
	c.CheckedIn(Now())
	pass(d)
	c.CheckedOut(context.Background(), 0, Now())
	op(context.Background(), c, OpQuery, took, 0, err)
}

func TestFindingsAboutUse(t *testing.T) {
	for _, tt := range []struct {
		name, id string
		run      func(p *Profiler)
		want     string // part of evidence and advice, "" for no finding
	}{
		{"no answer after a longer idle time than any that did no harm", "half_open", func(p *Profiler) {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			after(c, 10*time.Second, ms, nil)
			after(c, time.Minute, 5*time.Second, context.DeadlineExceeded)
		}, "idle for 1m0s or more; the longest idle time after which one answered is 10s"},
		{"no answer, and an answer after a longer idle time", "half_open", func(p *Profiler) {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			after(c, 2*time.Minute, ms, nil)
			after(c, time.Minute, 5*time.Second, context.DeadlineExceeded)
		}, ""},
		{"no answer, and never one to compare with", "half_open", func(p *Profiler) {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			after(c, time.Minute, 5*time.Second, context.DeadlineExceeded)
		}, ""},
		{"dead connections", "stale_connections", func(p *Profiler) {
			for i := range 3 {
				c := p.NewConn(orders, RolePool)
				c.Ready(noContext)
				c.CheckedIn(Now())
				pass(time.Duration(i+1) * time.Minute)
				c.Stale(context.Background(), Now())
			}
		}, "3 connections were found dead when a caller was to have them, after 1m0s to 3m0s idle"},
		{"two dead connections", "stale_connections", func(p *Profiler) {
			for range 2 {
				c := p.NewConn(orders, RolePool)
				c.Ready(noContext)
				c.CheckedIn(Now())
				pass(time.Minute)
				c.Stale(context.Background(), Now())
			}
		}, ""},
		{"a queue", "pool_saturated", func(p *Profiler) {
			used(p, 1, 30, CloseLifetime)
			p.WatchPool(orders.Address, func() PoolStats {
				return PoolStats{MaxOpen: 1, InUse: 1, WaitCount: 20, WaitDuration: 400 * ms}
			})
		}, "20 waits of 20ms each, 400ms in all, for 30 queries; at most 1 connections, 1 in use now"},
		{"waits of no length", "pool_saturated", func(p *Profiler) {
			p.WatchPool(orders.Address, func() PoolStats { return PoolStats{MaxOpen: 1, WaitCount: 1000, WaitDuration: 400 * ms} })
		}, ""},
		{"a pool without a limit", "pool_saturated", func(p *Profiler) {
			p.WatchPool(orders.Address, func() PoolStats { return PoolStats{WaitCount: 20, WaitDuration: 400 * ms} })
		}, ""},
	} {
		bubble(t, func(t *testing.T) {
			var p Profiler
			tt.run(&p)
			f := finding(&p, tt.id)
			if (f != nil) != (tt.want != "") {
				t.Errorf("%s: found %+v", tt.name, f)
			} else if f != nil && !strings.Contains(f.Evidence+f.Advice, tt.want) {
				t.Errorf("%s: %s; %s", tt.name, f.Evidence, f.Advice)
			}
		})
	}
}

func TestWhoHoldsConnectionsIdleIsToldOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := Profiler{Holders: true}
		ctx := context.Background()
		conns := make([]*Conn, 15)
		for i := range conns {
			conns[i] = p.NewConn(orders, RolePool)
			conns[i].Ready(noContext)
		}
		listsOrders := func(c *Conn) {
			o := c.Begin(ctx, OpQuery, Now())
			o.Responded(ctx, Now(), nil)
		}
		locks := func(c *Conn) { c.CheckedOut(ctx, 0, Now()) }
		for _, c := range conns[:2] {
			listsOrders(c)
		}
		locks(conns[2])
		listsOrders(conns[2]) // what a holder does later changes nothing
		locks(conns[3])
		conns[3].CheckedIn(Now())
		pass(31 * time.Second)
		listsOrders(conns[3]) // busy
		e := p.Report().Endpoint("", RolePool)
		if len(e.Holders) != 2 || e.Holders[0].Count != 2 || e.Holders[1].Count != 1 || e.Holders[0].Longest != e.HeldIdleLongest || e.HeldIdle != 3 ||
			!strings.Contains(e.Holders[0].Function, "TestWhoHolds") || !strings.HasSuffix(e.Holders[1].File, "finding_use_test.go") {
			t.Fatalf("%d held by %+v", e.HeldIdle, e.Holders)
		}
		text, want := p.Report().String(), "2 taken in "+e.Holders[0].String()+", the longest for 31"
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	})
}

// No number of places makes a report longer than it may be.
func TestHoldersAreBounded(t *testing.T) {
	var e EndpointReport
	for i := range 50 {
		for range 1 + i%7 {
			e.addHolder(Holder{Function: "main.main", File: "main.go", Line: i}, time.Second)
		}
	}
	e.sortHolders()
	if len(e.Holders) != maxHolders || e.Holders[0].Count != 7 || e.Holders[9].Count != 6 {
		t.Errorf("%+v", e.Holders)
	}
	for _, tt := range []struct{ function, want string }{
		{"main.main", "main.main (a.go:7)"},
		{"shop.example/store.(*DB).Orders.func1", "store.(*DB).Orders.func1 (a.go:7)"},
		{"shop.example/store.All[go.shape.struct { shop.example/store.Order }]", "store.All[go.shape.struct { shop.example/store.Order }] (a.go:7)"},
	} {
		if got := (Holder{Function: tt.function, File: "/src/shop/a.go", Line: 7}).String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestHeldIdleIsWhatNothingHappensOnInACallersHands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		ctx := context.Background()
		conns := make([]*Conn, 5)
		for i := range conns {
			conns[i] = p.NewConn(orders, RolePool)
			conns[i].Ready(noContext)
			op(ctx, conns[i], OpQuery, ms, 0, nil)
		}
		leaked, pooled, running, unseen, busy := conns[0], conns[1], conns[2], conns[3], conns[4]
		pooled.CheckedIn(Now())
		running.Begin(ctx, OpQuery, Now())
		unseen.ReturnsUnseen()
		op(ctx, unseen, OpQuery, ms, 0, nil)
		pass(40 * time.Second)
		op(ctx, busy, OpQuery, ms, 0, nil)
		r := p.Report()
		e := r.Endpoint("", RolePool)
		if e.HeldIdle != 1 || e.HeldIdleLongest < 39*time.Second || e.HeldIdleLongest > 41*time.Second {
			t.Errorf("%d held idle, %v", e.HeldIdle, e.HeldIdleLongest)
		}
		if d := leaked.HeldIdle(); d < 39*time.Second || running.HeldIdle()+pooled.HeldIdle()+unseen.HeldIdle() != 0 || busy.HeldIdle() > time.Second {
			t.Errorf("leaked %v, running %v, pooled %v, unseen %v, busy %v", d, running.HeldIdle(), pooled.HeldIdle(), unseen.HeldIdle(), busy.HeldIdle())
		}
		leaked.CheckedIn(Now())
		if d := leaked.HeldIdle(); d != 0 || leaked.Ops() != 1 {
			t.Errorf("back in the pool: held for %v after %d operations", d, leaked.Ops())
		}
	})
}

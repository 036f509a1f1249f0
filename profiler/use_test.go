package profiler

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUseAndIdleAlternate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p, c := ready(&r)
		ctx := context.Background()
		c.CheckedOut(ctx, 0, Now())
		op(ctx, c, OpExec, 2*ms, 0, nil)
		pass(ms)
		c.CheckedIn(0) // one operation: its end serves
		wantMeasure(t, p, MeasureUse, 1, 2*ms)
		wantMeasure(t, p, MeasureIdle, 0, 0)
		pass(10 * ms)
		c.CheckedOut(ctx, 0, Now())
		op(ctx, c, OpBegin, ms, 0, nil)
		if o := r.last(KindOperation).Op; o.Idle != 11*ms {
			t.Errorf("idle before the first operation of a use: %v, want 11ms", o.Idle)
		}
		op(ctx, c, OpCommit, ms, 0, nil)
		if o := r.last(KindOperation).Op; o.Idle != 0 {
			t.Errorf("idle within a use: %v", o.Idle)
		}
		pass(5 * ms)
		c.CheckedIn(0) // two operations: now
		wantMeasure(t, p, MeasureUse, 2, 9*ms)
		wantMeasure(t, p, MeasureIdle, 1, 11*ms)
		pass(ms)
		c.CheckedOut(ctx, 0, Now())
		pass(3 * ms)
		c.CheckedIn(0) // none: now
		wantMeasure(t, p, MeasureUse, 3, 12*ms)
		c.CheckedOut(ctx, 0, Now())
		o := c.Begin(ctx, OpQuery, Now())
		pass(2 * ms)
		o.Responded(ctx, Now(), nil)
		c.CheckedIn(0) // one that did not end: now, not the end of one long ago
		wantMeasure(t, p, MeasureUse, 4, 14*ms)
	})
}

func TestAFreshConnectionIsInUseFromItsHandOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, c := ready()
		op(context.Background(), c, OpExec, 2*ms, 0, nil)
		c.CheckedIn(Now()) // database/sql does not reset a new connection: no checkout was seen
		wantMeasure(t, p, MeasureUse, 1, 2*ms)
	})
}

func TestWaitsAreTheCallersOwn(t *testing.T) {
	for _, tt := range []struct {
		name         string
		run          func(p *Profiler) *Conn
		n            uint64
		wait, queued time.Duration
	}{
		{"a mark that the checkout takes", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			ctx := Asked(context.Background())
			pass(3 * ms)
			c.CheckedOut(ctx, 0, Now())
			pass(9 * ms) // no longer waiting
			op(ctx, c, OpExec, ms, 0, nil)
			op(ctx, c, OpExec, ms, 0, nil)
			return c
		}, 1, 3 * ms, 3 * ms},
		{"a mark that the operation takes", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			ctx := Asked(context.Background())
			pass(2 * ms)
			op(ctx, c, OpExec, ms, 0, nil)
			op(ctx, c, OpExec, ms, 0, nil)
			return c
		}, 1, 2 * ms, 2 * ms},
		{"an instant that the pool tells", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			asked := Now()
			pass(4 * ms)
			c.CheckedOut(noContext, asked, Now())
			op(noContext, c, OpExec, ms, 0, nil)
			return c
		}, 1, 4 * ms, 4 * ms},
		{"a create of the caller's own", func(p *Profiler) *Conn {
			ctx := Asked(context.Background())
			pass(ms)
			c := p.NewConn(orders, RolePool)
			pass(6 * ms)
			c.Ready(ctx)
			op(ctx, c, OpExec, ms, 0, nil)
			return c
		}, 1, 7 * ms, ms},
		{"a create in the background that the caller waited for", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			pass(ms)
			ctx := Asked(context.Background())
			pass(4 * ms)
			c.Ready(noContext)
			pass(2 * ms)
			c.CheckedOut(ctx, 0, Now())
			op(ctx, c, OpExec, ms, 0, nil)
			return c
		}, 1, 6 * ms, 2 * ms},
		{"nobody asked", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			pass(5 * ms)
			c.Ready(context.Background())
			c.CheckedOut(context.Background(), 0, Now())
			op(context.Background(), c, OpExec, ms, 0, nil)
			return c
		}, 0, 0, 0},
		{"a wait that no operation took is not the next one's", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			ctx := Asked(context.Background())
			pass(3 * ms)
			c.CheckedOut(ctx, 0, Now())
			c.CheckedIn(Now())
			c.CheckedOut(context.Background(), 0, Now())
			op(context.Background(), c, OpExec, ms, 0, nil)
			return c
		}, 0, 0, 0},
		{"a declined operation leaves it to the next", func(p *Profiler) *Conn {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			ctx := Asked(context.Background())
			pass(2 * ms)
			o := c.Begin(ctx, OpQuery, Now())
			o.Skip(false)
			op(ctx, c, OpQuery, ms, 0, nil)
			return c
		}, 1, 2 * ms, 2 * ms},
		{"a dead connection leaves it to the next connection", func(p *Profiler) *Conn {
			c, d := p.NewConn(orders, RolePool), p.NewConn(orders, RolePool)
			c.Ready(noContext)
			d.Ready(noContext)
			ctx := Asked(context.Background())
			pass(2 * ms)
			c.CheckedOut(ctx, 0, Now())
			o := c.Begin(ctx, OpQuery, Now())
			o.Skip(true)
			pass(ms)
			d.CheckedOut(ctx, 0, Now())
			op(ctx, d, OpQuery, ms, 0, nil)
			op(ctx, c, OpQuery, ms, 0, nil)
			return d
		}, 1, 3 * ms, 3 * ms},
	} {
		bubble(t, func(t *testing.T) {
			var r recorder
			p := &Profiler{Sinks: []Sink{&r}}
			c := tt.run(p)
			if n, sum := counts(p, MeasureWait); n != tt.n || sum != tt.wait {
				t.Errorf("%s: %d waits, %v; want %d, %v", tt.name, n, sum, tt.n, tt.wait)
			}
			if n, sum := counts(p, MeasureQueued); n != tt.n || sum != tt.queued {
				t.Errorf("%s: queued %v, want %v", tt.name, sum, tt.queued)
			}
			for _, e := range r.events {
				if o := e.Op; e.Kind == KindOperation && e.Conn == c && o.WaitKnown {
					if o.Wait != tt.wait || o.Queued != tt.queued || o.Asked.IsZero() {
						t.Errorf("%s: the operation says %v, %v", tt.name, o.Wait, o.Queued)
					}
				}
			}
		})
	}
}

func TestACallerWhoGetsNoConnectionHasWaitedAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		ctx, cancel := context.WithCancel(context.Background())
		asked := Now()
		pass(3 * ms)
		cancel()
		p.WaitFailed(ctx, orders, asked, 0, errors.New("the pool's own"))
		p.WaitFailed(ctx, orders, 0, 0, errors.New("asked at an unknown time"))
		(*Profiler)(nil).WaitFailed(ctx, orders, asked, 0, context.Canceled)
		p.Disable()
		p.WaitFailed(ctx, orders, asked, 0, context.Canceled)
		e := p.Report().Endpoint("", RolePool)
		if m := e.Measure(MeasureWait, Canceled); m == nil || m.Count != 1 || m.Sum != 3*ms || e.Created != 0 || len(e.Measures) != 1 {
			t.Errorf("report %+v, want one canceled wait of 3ms", e)
		}
	})
}

func TestAPoolThatChecksTellsOfDeadConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p, c := ready(&r)
		ctx := context.Background()
		c.Checked(2 * ms)
		c.CheckedOut(ctx, Now(), Now())
		c.AfterDead(2, 5*ms)
		o := c.Begin(ctx, OpQuery, 0)
		o.Check, o.Preparing, o.Prepared = 2*ms, ms, PreparedKept
		o.End(ctx, 0, nil)
		if got := r.last(KindOperation).Op; got.Attempts != 3 || got.StaleIdle != 5*ms || got.Check != 2*ms || got.Preparing != ms {
			t.Errorf("operation %+v", got)
		}
		wantMeasure(t, p, MeasureCheck, 1, 2*ms)
		e := p.Report().Endpoint("", RolePool)
		if e.PreparedKept != 1 || e.PreparedOnce != 0 {
			t.Errorf("report %+v", e)
		}
		op(ctx, c, OpQuery, ms, 0, nil)
		if got := r.last(KindOperation).Op; got.Attempts != 0 || got.StaleIdle != 0 {
			t.Errorf("the next one %+v", got)
		}
	})
}

// A wait in which no create was is its own queued part: recorded once, reported as both.
func TestWaitAndQueuedAreBothReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		var p Profiler
		c := p.NewConn(orders, RolePool)
		asked := Now()
		pass(5 * ms)
		c.Ready(noContext)
		pass(ms)
		use := func(asked Instant) {
			c.CheckedOut(noContext, asked, Now())
			op := c.Begin(noContext, OpCommand, Now())
			op.End(noContext, Now(), nil)
			c.CheckedIn(Now())
		}
		use(asked)
		asked = Now()
		pass(2 * ms)
		use(asked)
		e := p.Report().Endpoint(orders.Address, RolePool)
		wait, queued := e.Measure(MeasureWait, OK), e.Measure(MeasureQueued, OK)
		if wait.Count != 2 || wait.Sum != 8*ms || wait.Max != 6*ms || queued.Count != 2 || queued.Sum != 3*ms || queued.Min != ms {
			t.Errorf("wait %+v, queued %+v", wait, queued)
		}
	})
}

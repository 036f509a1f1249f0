package profiler

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAWaitInVainIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var all recorder
		var tl Timeline
		p := &Profiler{Sinks: []Sink{&all}}
		ctx := WithSink(context.Background(), &tl)
		asked := Now()
		pass(30 * ms)
		at := Now()
		pass(ms)
		p.WaitFailed(ctx, orders, asked, at, context.DeadlineExceeded)
		for who, e := range map[string]Event{"the profiler's sink": all.last(KindWaitFailed), "the request's own": tl.Events()[0]} {
			if e.Kind != KindWaitFailed || e.Conn.Endpoint() != orders || e.Conn.Role() != RolePool || e.Conn.ID() != 0 || e.Conn.Create() != nil {
				t.Errorf("%s got %+v", who, e)
			}
			if o := e.Op; !o.WaitKnown || o.Wait != 30*ms || o.End.Sub(o.Asked) != 30*ms || o.Outcome != Timeout || o.Err != context.DeadlineExceeded {
				t.Errorf("%s got %+v", who, o)
			}
		}
		var b strings.Builder
		if tl.WriteTo(&b); !strings.Contains(b.String(), "in vain: timeout") || !strings.Contains(b.String(), "30") {
			t.Errorf("waterfall:\n%s", b.String())
		}
		e := p.Report().Endpoint(orders.Address, RolePool)
		if m := e.Measure(MeasureWait, Timeout); m == nil || m.Count != 1 || m.Sum != 30*ms || e.Created != 0 || e.Live != 0 || len(p.Conns()) != 0 {
			t.Errorf("report %+v", e)
		}
	})
}

// A caller gave up without a connection if its context is done and no operation began under it.
func TestWhoGaveUpIsKnownFromTheMark(t *testing.T) {
	for _, tt := range []struct {
		name string
		done bool
		run  func(ctx context.Context, c *Conn)
		want uint64
	}{
		{"in the queue", true, func(context.Context, *Conn) {}, 1},
		{"an error of another kind", false, func(context.Context, *Conn) {}, 0},
		{"in a query", true, func(ctx context.Context, c *Conn) {
			c.CheckedOut(ctx, 0, 0)
			op(ctx, c, OpExec, ms, 0, context.Canceled)
		}, 0},
		{"after a dead connection, in the queue again", true, func(ctx context.Context, c *Conn) {
			c.CheckedOut(ctx, 0, 0)
			o := c.Begin(ctx, OpExec, Now())
			o.Skip(true)
		}, 1},
	} {
		bubble(t, func(t *testing.T) {
			var all recorder
			p, c := ready(&all)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var a Asker
			c.CheckedOut(a.Asked(context.Background()), 0, 0) // an earlier caller
			c.CheckedIn(0)
			ctx = a.Asked(ctx)
			pass(10 * ms)
			tt.run(ctx, c)
			if tt.done {
				cancel()
			}
			a.Ended(ctx, io.ErrUnexpectedEOF) // a driver's own word for it
			a.Ended(ctx, io.ErrUnexpectedEOF)
			var n uint64
			for _, o := range []Outcome{Failed, Canceled, Timeout} {
				if m := p.Report().Endpoint(orders.Address, RolePool).Measure(MeasureWait, o); m != nil {
					n += m.Count
				}
			}
			if n != tt.want {
				t.Errorf("%s: %d gave up, want %d", tt.name, n, tt.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	new(Asker).Ended(ctx, io.EOF) // it does not know whose
}

func TestCallersWhoCantWaitForAConnectAreTold(t *testing.T) {
	for _, tt := range []struct {
		name             string
		create, patience time.Duration
		err              error
		want             bool
	}{
		{"a connect that takes longer", 300 * ms, 100 * ms, context.DeadlineExceeded, true},
		{"a caller that went away", 300 * ms, 100 * ms, context.Canceled, true},
		{"a connect that would have been in time", 50 * ms, 100 * ms, context.DeadlineExceeded, false},
		{"a pool that was closed", 300 * ms, 100 * ms, io.EOF, false},
	} {
		bubble(t, func(t *testing.T) {
			p := new(Profiler)
			p.WaitFailed(noContext, orders, Now()-Instant(tt.patience), Now(), tt.err)
			c := p.NewConn(orders, RolePool)
			pass(tt.create)
			c.Ready(noContext)
			f := finding(p, "connect_outlasts_wait")
			if (f != nil) != tt.want {
				t.Errorf("%s: %+v", tt.name, f)
			}
			if f != nil && !strings.Contains(f.Evidence, "1 callers gave up after 100ms at the median, and making a connection takes 300ms (1 were made)") {
				t.Errorf("%s: %s", tt.name, f.Evidence)
			}
		})
	}
}

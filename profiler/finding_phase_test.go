package profiler

import (
	"strings"
	"testing"
	"time"
)

// made makes a connection whose phases take what is given, in their order; a zero one is absent.
func made(p *Profiler, r Role, hook, resolve, connect, greet time.Duration) {
	c := p.NewConn(orders, r)
	for _, ph := range []struct {
		p Phase
		d time.Duration
	}{{Hook, hook}, {Resolve, resolve}, {Connect, connect}, {Greet, greet}, {Auth, 2 * ms}} {
		if ph.d > 0 {
			pass(ph.d)
			c.Cut(ph.p, Now())
		}
	}
	c.Ready(noContext)
}

func TestASlowPhaseIsNamed(t *testing.T) {
	const us = time.Microsecond
	repeat := func(n int, hook, resolve, connect, greet time.Duration) func(*Profiler) {
		return func(p *Profiler) {
			for range n {
				made(p, RolePool, hook, resolve, connect, greet)
			}
		}
	}
	ids := []string{"create_opaque", "hook_slow", "resolver_timeout", "connect_retried", "greet_late"}
	for _, tt := range []struct {
		name     string
		run      func(p *Profiler)
		id       string // "" for no finding
		evidence string
	}{
		{"nothing is slow", repeat(20, ms, ms, 200*us, 3*ms), "", ""},
		{"a hook that takes most of the time", repeat(20, 200*ms, ms, 200*us, ms), "hook_slow", "4s of the 4.08s that 20 creates took, 200ms each"},
		{"a few creates are not enough", repeat(5, 200*ms, ms, 200*us, 600*ms), "", ""},
		{"a hook that takes less than the rest", repeat(20, 20*ms, ms, 200*us, 30*ms), "", ""},
		{"one look-up that lost its answer", func(p *Profiler) {
			repeat(3, 0, 2*ms, 200*us, ms)(p)
			repeat(1, 0, 5002*ms, 200*us, ms)(p)
		}, "resolver_timeout", "1 of 4 took about 5 s or more, the median is 2ms"},
		{"look-ups that are slow, but not for a time-out", repeat(20, 0, 3*time.Second, 200*us, ms), "", ""},
		{"a lost SYN", func(p *Profiler) {
			repeat(30, 0, 0, 300*us, ms)(p)
			repeat(2, 0, 0, 1001*ms, ms)(p)
		}, "connect_retried", "2 of 32 took 1 s or more, the median is 300µs"},
		{"a way that is long in itself", repeat(20, 0, 0, 1100*ms, 1200*ms), "", ""},
		{"a middle hop", repeat(20, 0, 0, 100*us, 500*ms), "greet_late", "500ms at the median (at least 500ms), where connecting took 100µs"},
		{"a long way explains a late greeting", repeat(20, 0, 0, 80*ms, 160*ms), "", ""},
		{"one block", func(p *Profiler) {
			for range 2 {
				c := p.NewConn(orders, RolePool)
				pass(30 * ms)
				c.Ready(noContext)
			}
		}, "create_opaque", "2 creates took 30ms each at the median"},
		{"other connections than the pool's", func(p *Profiler) {
			for range 20 {
				made(p, RoleMonitor, 200*ms, 5100*ms, 100*us, 500*ms)
			}
		}, "", ""},
	} {
		bubble(t, func(t *testing.T) {
			p := new(Profiler)
			tt.run(p)
			for _, id := range ids {
				f := finding(p, id)
				if (f != nil) != (id == tt.id) {
					t.Errorf("%s: %s: %+v", tt.name, id, f)
				}
				if f != nil && (!strings.Contains(f.Evidence, tt.evidence) || f.Advice == "" || f.Subject != orders.Address) {
					t.Errorf("%s: %+v, want evidence %q", tt.name, f, tt.evidence)
				}
			}
		})
	}
}

package profiler

import (
	"strings"
	"testing"
	"time"
)

func TestPhasesAreToldInRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		make := func(rtt, tls, auth time.Duration) *Create {
			c := p.NewConn(orders, RolePool)
			pass(tls)
			c.Cut(TLS, Now())
			if auth > 0 {
				pass(auth)
				c.Cut(Auth, Now())
			}
			c.Update(func(cr *Create) { cr.TCP = TCPInfo{Known: rtt > 0, RTT: rtt} })
			c.Ready(noContext)
			return c.Create()
		}
		a, b := make(10*ms, 22*ms, 11*ms), make(20*ms, 38*ms, 0)
		if n, ok := a.RoundTrips(TLS); n != 2.2 || !ok {
			t.Errorf("tls took %v round trips (%v), want 2.2", n, ok)
		}
		for _, tt := range []struct {
			cr *Create
			p  Phase
		}{{b, Auth}, {make(0, 30*ms, 5*ms), TLS}, {nil, TLS}, {a, NumPhases}, {&Create{TCP: a.TCP}, TLS}, {&Create{TCP: TCPInfo{Known: true}, Phases: a.Phases}, TLS}} {
			if n, ok := tt.cr.RoundTrips(tt.p); ok || n != 0 {
				t.Errorf("%v took %v round trips; it is not known", tt.p, n)
			}
		}
		r := p.Report()
		e := r.Endpoints[0]
		if e.RTTs != 2 || e.RTT != 15*ms || len(e.Breakdown) != 2 || e.Breakdown[0].RoundTrips != 2 || e.Breakdown[1].RoundTrips != 11.0/30 {
			t.Errorf("%d round trips of %v, %+v", e.RTTs, e.RTT, e.Breakdown)
		}
		for _, want := range []string{"a round trip takes 15.0 ms, mean of 2", "round trips", "3          2.0", "2          0.4"} {
			if !strings.Contains(r.String(), want) {
				t.Errorf("the text lacks %q:\n%v", want, r)
			}
		}
		make(40*ms, 20*ms, 0)
		if e := p.Report().Sub(r).Endpoints[0]; e.RTTs != 1 || e.RTT != 40*ms || e.Breakdown[0].RoundTrips != 0.5 {
			t.Errorf("since then %d of %v, %+v", e.RTTs, e.RTT, e.Breakdown)
		}
	})
}

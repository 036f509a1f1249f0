package profiler

import (
	"context"
	"strings"
	"testing"
	"time"
)

// loggedIn makes n connections whose client waits before its first word and whose login takes a while, a part of it waiting for the server.
func loggedIn(p *Profiler, n int, of Endpoint, r Role, verify, auth, wait time.Duration) {
	for range n {
		c := p.NewConn(of, r)
		for _, s := range []struct {
			p Phase
			d time.Duration
		}{{TLS, 3 * ms}, {Verify, verify}, {Auth, auth}} {
			pass(s.d)
			c.Cut(s.p, Now())
		}
		c.Update(func(cr *Create) { cr.Wire.AuthTurns, cr.Wire.AuthWait = 2, wait })
		c.Ready(noContext)
	}
}

func TestWhatTheClientDoesItselfIsNotASlowServer(t *testing.T) {
	mongo := Endpoint{System: "mongodb", Address: orders.Address}
	play := func(n int, of Endpoint, r Role, verify, auth, wait time.Duration) func(*Profiler) {
		return func(p *Profiler) { loggedIn(p, n, of, r, verify, auth, wait) }
	}
	for _, tt := range []struct {
		name, id         string
		run              func(p *Profiler)
		evidence, advice string // "" for no finding
	}{
		{"a responder that is not reached", "verify_slow", play(3, mongo, RolePool, 2*time.Second, 4*ms, ms), "2s at the median of 3 creates, after TLS itself had taken 3ms", "tlsDisableOCSPEndpointCheck"},
		{"once, for long", "verify_slow", play(1, mongo, RolePool, 2*time.Second, 4*ms, ms), "2s at the median", "staple"},
		{"once, not for long", "verify_slow", play(1, mongo, RolePool, 100*ms, 4*ms, ms), "", ""},
		{"another database's", "verify_slow", play(20, orders, RolePool, 100*ms, 4*ms, ms), "100ms", "VerifyConnection"},
		{"the usual", "verify_slow", play(20, mongo, RolePool, ms, 4*ms, ms), "", ""},
		{"a monitor's alone", "verify_slow", play(20, mongo, RoleMonitor, 2*time.Second, 4*ms, ms), "", ""},
		{"many rounds", "auth_computes", play(20, orders, RolePool, 0, 90*ms, 20*ms), "of the 90ms that each of 20 logins took, 70ms was spent here and 20ms waiting", "fewer at once"},
		{"a far server", "auth_computes", play(20, orders, RolePool, 0, 90*ms, 80*ms), "", ""},
		{"a few rounds", "auth_computes", play(20, orders, RolePool, 0, 4*ms, ms), "", ""},
		{"a few logins", "auth_computes", play(5, orders, RolePool, 0, 90*ms, 20*ms), "", ""},
		{"logins that failed count, too", "auth_computes", func(p *Profiler) {
			loggedIn(p, 10, orders, RolePool, 0, 90*ms, 80*ms)
			for range 10 {
				c := p.NewConn(orders, RolePool)
				pass(200 * ms)
				c.Update(func(cr *Create) { cr.Wire.AuthTurns, cr.Wire.AuthWait, cr.Failed = 2, 190*ms, Auth })
				c.Cut(Auth, Now())
				c.Fail(noContext, context.Canceled)
			}
		}, "", ""},
		{"logins that nobody watched", "auth_computes", func(p *Profiler) {
			for range 20 {
				c := p.NewConn(orders, RolePool)
				pass(90 * ms)
				c.Cut(Auth, Now())
				c.Ready(noContext)
			}
		}, "", ""},
	} {
		bubble(t, func(t *testing.T) {
			var p Profiler
			tt.run(&p)
			f := finding(&p, tt.id)
			if (f != nil) != (tt.evidence != "") {
				t.Errorf("%s: found %+v", tt.name, f)
			} else if f != nil && (!strings.Contains(f.Evidence, tt.evidence) || !strings.Contains(f.Advice, tt.advice)) {
				t.Errorf("%s: %s; %s", tt.name, f.Evidence, f.Advice)
			}
		})
	}
}

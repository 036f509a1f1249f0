package profiler

import (
	"crypto/tls"
	"strings"
	"testing"
)

func TestHandshakesThatAreNeverResumed(t *testing.T) {
	full := TLSInfo{Seen: true, Done: true, Version: tls.VersionTLS13}
	asking, offering, resumed := full, full, full
	asking.TicketsAsked = true
	offering.TicketsAsked, offering.ResumptionOffered = true, true
	resumed.TicketsAsked, resumed.ResumptionOffered, resumed.Resumed = true, true, true
	postgres := Endpoint{System: "postgresql", Address: "pg.example:5432"}
	for _, tt := range []struct {
		name             string
		end              Endpoint
		role             Role
		n, ops           int
		tls              []TLSInfo // in turn
		evidence, advice string    // "" for no finding
	}{
		{"no cache", orders, RolePool, 20, 1, []TLSInfo{full}, "asked for no ticket in 20 handshakes", "ClientSessionCache"},
		{"too few", orders, RolePool, 19, 1, []TLSInfo{full}, "", ""},
		{"connections that serve many queries", orders, RolePool, 20, 25, []TLSInfo{full}, "", ""},
		{"monitors", orders, RoleMonitor, 20, 1, []TLSInfo{full}, "", ""},
		{"no cache, and PostgreSQL, which has no tickets", postgres, RolePool, 20, 1, []TLSInfo{full}, "", ""},
		{"a cache, and PostgreSQL", postgres, RolePool, 20, 1, []TLSInfo{asking}, "asked for tickets in all of 20", "only fewer new connections"},
		{"a server without tickets", orders, RolePool, 20, 1, []TLSInfo{asking}, "never had one to offer", "only fewer new connections"},
		{"a server that takes none", orders, RolePool, 20, 1, []TLSInfo{asking, offering}, "none of the 10 sessions", "ticket keys"},
		{"some are resumed", orders, RolePool, 20, 1, []TLSInfo{asking, resumed, offering}, "", ""},
		{"some clients have a cache, some not", orders, RolePool, 20, 1, []TLSInfo{asking, full}, "", ""},
	} {
		bubble(t, func(t *testing.T) {
			p := new(Profiler)
			for i := range tt.n {
				c := p.NewConn(tt.end, tt.role)
				c.Update(func(cr *Create) { cr.TLS = tt.tls[i%len(tt.tls)] })
				pass(ms)
				c.Cut(TLS, Now())
				c.Ready(noContext)
				for range tt.ops {
					op(noContext, c, OpQuery, ms, 0, nil)
				}
			}
			f := finding(p, "tls_never_resumed")
			if (f != nil) != (tt.evidence != "") {
				t.Fatalf("%s: %+v", tt.name, f)
			}
			if f != nil && (!strings.Contains(f.Evidence, tt.evidence) || !strings.Contains(f.Advice, tt.advice)) {
				t.Errorf("%s: %+v", tt.name, f)
			}
		})
	}
}

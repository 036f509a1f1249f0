package pool_test

import (
	"crypto/tls"
	"testing"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// A cold client pays for TLS twice, on the monitor's connection and on its own, unless its tls.Config keeps sessions.
func TestMongoColdClientMakesTLSTwice(t *testing.T) {
	ca := certtest.NewCA(certtest.ECDSA)
	cert := ca.Issue(certtest.Leaf{}).TLS
	drivers(t, func(t *testing.T, d driver) {
		for name, cache := range map[string]tls.ClientSessionCache{
			"without a session cache": nil, "with a session cache": tls.NewLRUClientSessionCache(8),
		} {
			t.Run(name, func(t *testing.T) {
				s := mongotest.Start(t, mongotest.Options{
					TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Users: map[string]string{"u": "p"},
				})
				p := &profiler.Profiler{}
				c := d.connect(t, p, s.UserURI("u", "p", ""), user{tls: &tls.Config{RootCAs: ca.Pool(), ClientSessionCache: cache}})
				for range 2 {
					if err := c.find(testContext(t), 1); err != nil {
						t.Fatal(err)
					}
				}
				c.close()
				r := gone(t, p)
				pool, monitor := r.Endpoint(s.Addr(), profiler.RolePool), r.Endpoint(s.Addr(), profiler.RoleMonitor)
				if pool.TLS.Handshakes != 1 || monitor.TLS.Handshakes != 1 || (pool.TLS.Resumed == 1) != (cache != nil) || monitor.TLS.Resumed != 0 {
					t.Errorf("pool %+v, monitor %+v", pool.TLS, monitor.TLS)
				}
				for _, ph := range []profiler.Phase{profiler.TLS, profiler.Verify, profiler.Hello} {
					for _, e := range []*profiler.EndpointReport{pool, monitor} {
						if e.Measure(profiler.Measure(ph), profiler.OK) == nil {
							t.Errorf("%s: no %v", e.Role, ph)
						}
					}
				}
				auth := profiler.Measure(profiler.Auth)
				if pool.Measure(auth, profiler.OK) == nil || monitor.Measure(auth, profiler.OK) != nil {
					t.Error("auth is the pool's alone")
				}
				if a := pool.Amortisation; a == nil || a.TLS <= pool.Distribution(profiler.Measure(profiler.TLS), profiler.OK).Quantile(0.5) {
					t.Errorf("the amortisation does not count the monitor's TLS: %+v", a)
				}
			})
		}
	})
}

package pool_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
	"golang.org/x/crypto/ocsp"
)

// The drivers ask the certificate's OCSP responder after the handshake, on each connection, and keep nothing of a failure. That is time of
// the phase verify: neither TLS nor the server is slow.
func TestMongoRevocationCheckIsVerify(t *testing.T) {
	const delay = 300 * time.Millisecond // more than a busy machine takes for a handshake
	drivers(t, func(t *testing.T, d driver) {
		for name, off := range map[string]bool{"endpoint check": false, "endpoint check off": true} {
			t.Run(name, func(t *testing.T) {
				var asked atomic.Int32
				responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					time.Sleep(delay) // the responder's own slowness
					w.WriteHeader(http.StatusInternalServerError)
				}))
				defer responder.Close()
				client := responder.Client()
				defer client.CloseIdleConnections()
				ca := certtest.NewCA(certtest.ECDSA)
				cert := ca.Issue(certtest.Leaf{OCSPServer: responder.URL}).TLS
				cert.Certificate = append(cert.Certificate, ca.Cert.Raw) // the issuer, whom the request names
				s := mongotest.Start(t, mongotest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
				p := &profiler.Profiler{}
				c := d.connect(t, p, s.URI(""), user{tls: &tls.Config{RootCAs: ca.Pool()}, noOCSP: off, http: client})
				for range 3 {
					worksAgain(t, c)
					s.KillPool()
				}
				c.close()
				r := gone(t, p)
				for _, role := range []profiler.Role{profiler.RolePool, profiler.RoleMonitor} {
					e := r.Endpoint(s.Addr(), role)
					verify := e.Measure(profiler.Measure(profiler.Verify), profiler.OK)
					handshake := e.Measure(profiler.Measure(profiler.TLS), profiler.OK)
					if verify == nil || handshake == nil {
						t.Fatalf("%s: measures %+v", e.Role, e.Measures)
					}
					if (verify.Min >= delay) == off || handshake.Max >= delay {
						t.Errorf("%s: verify %v, tls %v; the responder takes %v", e.Role, verify.Min, handshake.Max, delay)
					}
				}
				e := r.Endpoint(s.Addr(), profiler.RolePool)
				i := slices.IndexFunc(r.Findings, func(f profiler.Finding) bool { return f.ID == "verify_slow" })
				if (i >= 0) == off {
					t.Errorf("findings %+v after %d creates", r.Findings, e.Created)
				} else if i >= 0 {
					f := r.Findings[i]
					verify := e.Measure(profiler.Measure(profiler.Verify), profiler.OK)
					median, _, _ := strings.Cut(f.Evidence, " at the median of ")
					if told, err := time.ParseDuration(median); err != nil || told < delay || told > verify.Max+5*time.Millisecond || f.Subject != s.Addr() ||
						!strings.Contains(f.Advice, "tlsDisableOCSPEndpointCheck") {
						t.Errorf("%+v, median %v", f, verify.P50)
					}
				}
				if want := int32(2); (asked.Load() >= want) == off {
					t.Errorf("the responder was asked %d times", asked.Load())
				}
			})
		}
	})
}

// A responder that works says of each connection's certificate that it is good: what is slow then is the responder, and only if it is.
func TestMongoSlowRevocationResponderIsFound(t *testing.T) {
	const delay = 150 * time.Millisecond
	drivers(t, func(t *testing.T, d driver) {
		for name, takes := range map[string]time.Duration{"slow": delay, "fast": 0} {
			t.Run(name, func(t *testing.T) {
				ca := certtest.NewCA(certtest.ECDSA)
				var answer []byte
				var asked atomic.Int32
				responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if _, err := ocsp.ParseRequest(body); err != nil {
						t.Errorf("asked for something else: %v", err)
					}
					asked.Add(1)
					time.Sleep(takes)
					_, _ = w.Write(answer)
				}))
				defer responder.Close()
				client := responder.Client()
				defer client.CloseIdleConnections()
				cert := ca.Issue(certtest.Leaf{OCSPServer: responder.URL}).TLS
				answer = ca.OCSPGood(cert.Leaf)
				if _, err := ocsp.ParseResponseForCert(answer, cert.Leaf, ca.Cert); err != nil {
					t.Fatal(err)
				}
				cert.Certificate = append(cert.Certificate, ca.Cert.Raw)
				s := mongotest.Start(t, mongotest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
				p := &profiler.Profiler{}
				c := d.connect(t, p, s.URI(""), user{tls: &tls.Config{RootCAs: ca.Pool()}, http: client})
				for range 3 {
					worksAgain(t, c)
					s.KillPool()
				}
				c.close()
				r := gone(t, p)
				e := r.Endpoint(s.Addr(), profiler.RolePool)
				if int64(asked.Load()) < e.Created || e.Created < 3 {
					t.Errorf("the responder was asked %d times for %d connections", asked.Load(), e.Created)
				}
				i := slices.IndexFunc(r.Findings, func(f profiler.Finding) bool { return f.ID == "verify_slow" })
				if (i >= 0) != (takes > 0) {
					t.Fatalf("findings %+v, verify %+v", r.Findings, e.Measure(profiler.Measure(profiler.Verify), profiler.OK))
				}
				if i < 0 {
					return
				}
				f := r.Findings[i]
				median, _, _ := strings.Cut(f.Evidence, " at the median of ")
				if told, err := time.ParseDuration(median); err != nil || told < delay || f.Subject != s.Addr() ||
					!strings.Contains(f.Advice, "OCSP responder") || !strings.Contains(f.Advice, "staple") {
					t.Errorf("%+v", f)
				}
			})
		}
	})
}

// SCRAM's key derivation is the client's work: it lies in auth, apart from what the server took. A driver does it once for a client.
func TestMongoLoginComputesInTheClient(t *testing.T) {
	const delay = 20 * time.Millisecond
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{
			Users: map[string]string{"u": "p"}, Iterations: 15_000,
			Script: mongotest.On("saslContinue", mongotest.Step{Delay: delay}),
		})
		o := newOracle()
		p := &profiler.Profiler{}
		c := d.connect(t, p, s.UserURI("u", "p", ""), user{dial: o.dial})
		for range 4 {
			worksAgain(t, c)
			s.KillPool()
		}
		c.close()
		gone(t, p)
		var compute []time.Duration
		var waited time.Duration // at most: on a busy machine a Write returns late, and the wait begins then
		for _, dialed := range o.dials {
			cr := dialed.conn.Create()
			if dialed.conn.Role() != profiler.RolePool || cr == nil || cr.Err != nil {
				continue
			}
			auth := cr.Phases[profiler.Auth].Duration
			if auth < delay || cr.Wire.AuthWait > auth || cr.Wire.AuthTurns != 1 {
				t.Errorf("auth %v, of it waiting %v in %d turns", auth, cr.Wire.AuthWait, cr.Wire.AuthTurns)
			}
			waited = max(waited, cr.Wire.AuthWait)
			compute = append(compute, auth-cr.Wire.AuthWait)
		}
		if waited < delay {
			t.Errorf("waited %v at most, for a server that takes %v", waited, delay)
		}
		if len(compute) < 4 || compute[0] < 500*time.Microsecond || slices.Min(compute[1:])*2 > compute[0] {
			t.Errorf("computed for %v: want milliseconds on the first connection, next to nothing later", compute)
		}
		e := p.Report().Endpoint(s.Addr(), profiler.RolePool)
		if auth := e.Measure(profiler.Measure(profiler.Auth), profiler.OK); e.AuthWait >= auth.Sum {
			t.Errorf("waited %v of %v", e.AuthWait, auth.Sum)
		}
	})
}

package handshake

import (
	"crypto/tls"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

// playShape is a shape of handshake.
type playShape struct {
	name     string
	versions []uint16
	client   func(*tls.Config)
	server   func(*tls.Config)
	resume   bool
	check    func(profiler.TLSInfo) bool
}

func playShapes() []playShape {
	withCert := func(c *tls.Config) { c.Certificates = []tls.Certificate{ecdsaCert()} }
	return []playShape{
		{name: "full", versions: allVersions, check: func(i profiler.TLSInfo) bool { return !i.Resumed && !i.ClientCert && !i.HelloRetry }},
		{name: "resumed", versions: allVersions, resume: true, check: func(i profiler.TLSInfo) bool { return i.Resumed }},
		{name: "with a client certificate", versions: allVersions, client: withCert,
			server: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
			check:  func(i profiler.TLSInfo) bool { return i.ClientCert }},
		{name: "with a HelloRetryRequest", versions: only13,
			server: func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} },
			check:  func(i profiler.TLSInfo) bool { return i.HelloRetry && i.Group == tls.CurveP384 }}, // C17
		{name: "with a certificate of 30 KB", versions: allVersions,
			server: func(c *tls.Config) { c.Certificates = []tls.Certificate{largeCert()} },
			check:  func(i profiler.TLSInfo) bool { return i.BytesIn > 30<<10 }},
	}
}

// configs are those of a client and a server.
func (s *playShape) configs(version uint16) (client, server *tls.Config) {
	client = &tls.Config{
		ServerName: "localhost", RootCAs: tlsPool(ecdsaCert(), largeCert()),
		MinVersion: version, MaxVersion: version,
		VerifyConnection: func(tls.ConnectionState) error { time.Sleep(checkTime); return nil },
	}
	server = &tls.Config{Certificates: []tls.Certificate{ecdsaCert()}, MinVersion: tls.VersionTLS10}
	if s.client != nil {
		s.client(client)
	}
	if s.server != nil {
		s.server(server)
	}
	if s.resume {
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		server.SetSessionTicketKeys([][32]byte{{1}})
	}
	return client, server
}

// phases is a create's time by phase; absent ones are not in it.
type phases map[profiler.Phase]time.Duration

func checkPhases(t *testing.T, cr *profiler.Create, want phases) {
	t.Helper()
	for p := range profiler.Phases {
		d, present := want[p]
		if got := cr.Phases[p]; got.Present != present && p != profiler.Other || got.Duration != d {
			t.Errorf("%v: %v (present %t), want %v (present %t)", p, got.Duration, got.Present, d, present)
		}
	}
}

// before is what every play does before the preamble.
func before() phases {
	return phases{profiler.Hook: hookTime, profiler.Resolve: lookUpTime, profiler.Attempts: lostTime, profiler.Connect: connectTime}
}

func TestPhasesOfAHandshakeAreExact(t *testing.T) {
	for _, system := range []string{"mysql", "postgresql", "mongodb", "something else"} {
		for _, s := range playShapes() {
			for _, version := range s.versions {
				t.Run(fmt.Sprintf("%s, %s, %s", system, tls.VersionName(version), s.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						y := &play{system: system, secure: true, turns: 3, setup: 1}
						y.client, y.server = s.configs(version)
						if s.resume {
							if _, err := y.run(t); err != nil {
								t.Fatal(err)
							}
						}
						cr, err := y.run(t)
						if err != nil {
							t.Fatal(err)
						}
						want := before()
						want[profiler.TLS], want[profiler.Verify] = helloTime+checkTime, ocspTime
						wait := 2 * answerTime
						switch system {
						case "mongodb":
							want[profiler.Hello], want[profiler.Auth] = answerTime, 2*(computeTime+answerTime)
						default:
							want[profiler.Auth], want[profiler.Setup] = 2*answerTime+computeTime, computeTime+answerTime
						}
						if system == "mysql" || system == "postgresql" {
							want[profiler.Greet] = greetTime
						}
						want[profiler.Other] = overTime
						checkPhases(t, cr, want)
						if cr.Wire.AuthWait != wait || cr.Wire.AuthTurns != 2 || cr.Wire.Turns != 3 {
							t.Errorf("wire %+v; want 2 of 3 turns of login, waiting %v", cr.Wire, wait)
						}
						tl := cr.TLS
						tlsBegan := hookTime + lookUpTime + lostTime + connectTime + want[profiler.Greet]
						if !tl.Done || tl.Version != version || !s.check(tl) || tl.HelloWritten != tlsBegan || tl.ServerHello != tlsBegan+helloTime {
							t.Errorf("TLS %+v; want a ClientHello at %v, answered after %v", tl, tlsBegan, helloTime)
						}
						if a := cr.Attempts; len(a) != 2 || a[0].Duration != lostTime || a[1].Duration != connectTime || a[0].Err == nil {
							t.Errorf("attempts %+v", a)
						}
					})
				})
			}
		}
	}
}

func TestPhasesInTheClearAreExact(t *testing.T) {
	for _, tt := range []struct {
		name string
		play play
		want phases
	}{
		{"MySQL", play{system: "mysql", turns: 3, setup: 1}, phases{profiler.Greet: greetTime,
			profiler.Auth: 2*answerTime + computeTime, profiler.Setup: computeTime + answerTime}},
		{"MySQL with an unknown number of statements", play{system: "mysql", turns: 3, setup: -1}, phases{profiler.Greet: greetTime,
			profiler.Auth: 2*answerTime + computeTime, profiler.Setup: computeTime + answerTime}}, // the OK tells
		{"PostgreSQL without TLS", play{system: "postgresql", turns: 2}, phases{profiler.Auth: 2*answerTime + computeTime}},
		{"PostgreSQL refuses TLS", play{system: "postgresql", refuse: true, turns: 2}, // C23
			phases{profiler.Greet: greetTime, profiler.Auth: 2*answerTime + computeTime}},
		{"PostgreSQL with an unknown number of statements", play{system: "postgresql", turns: 3, setup: -1},
			phases{profiler.AuthSetup: 3*answerTime + 2*computeTime}},
		{"MongoDB", play{system: "mongodb", turns: 2}, phases{profiler.Hello: answerTime, profiler.Auth: computeTime + answerTime}},
		{"MongoDB without a login", play{system: "mongodb", turns: 1}, phases{profiler.Hello: answerTime}},
		{"no exchange", play{system: "mongodb"}, phases{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cr, err := tt.play.run(t)
				if err != nil {
					t.Fatal(err)
				}
				want := before()
				for p, d := range tt.want {
					want[p] = d
				}
				want[profiler.Other] = overTime
				checkPhases(t, cr, want)
				if cr.TLS.Seen {
					t.Errorf("TLS %+v was seen in the clear", cr.TLS)
				}
			})
		})
	}
}

// TLS 1.3's server says only after the client's Finished that it refuses the certificate (RFC 8446 §4.4.2.4). An orderly close at the same
// place is no refusal.
func TestALateRefusalOfAClientCertificateIsTLS(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse bool
		failed profiler.Phase
	}{
		{"refused", true, profiler.TLS},
		{"taken, and the login ends with a close", false, profiler.Auth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := playShapes()[2]
				y := &play{system: "mysql", secure: true, turns: 1, breakAt: turn1, how: closes, late: answerTime}
				y.client, y.server = s.configs(tls.VersionTLS13)
				if tt.refuse {
					y.server.ClientAuth, y.server.ClientCAs = tls.RequireAndVerifyClientCert, tlsPool()
				}
				cr, err := y.run(t)
				if err == nil || cr.Failed != tt.failed || cr.TLS.ClientCert != true || cr.TLS.AlertEncrypted != tt.refuse || cr.TLS.Done == tt.refuse {
					t.Errorf("%v: failed in %v, TLS %+v; want %v", err, cr.Failed, cr.TLS, tt.failed)
				}
				if d := cr.Phases[profiler.TLS].Duration; d != helloTime+checkTime {
					t.Errorf("tls took %v", d)
				}
			})
		})
	}
}

func TestAFailureIsChargedExactlyToItsPhase(t *testing.T) {
	const give = 40 * ms
	full := playShapes()[0]
	waited := map[act]time.Duration{ // from the start to where it breaks
		resolving: hookTime, connecting: hookTime + lookUpTime + lostTime,
	}
	begun := waited[connecting] + connectTime
	waited[greeting1] = begun
	for _, tt := range []struct {
		system string
		at     act
		phase  profiler.Phase
	}{
		{"mysql", resolving, profiler.Resolve}, {"mysql", connecting, profiler.Connect}, {"mysql", greeting1, profiler.Greet},
		{"mysql", handshake, profiler.TLS}, {"mysql", verifying, profiler.Verify}, {"mysql", turn1, profiler.Auth},
		{"mysql", turn2, profiler.Auth},
		{"postgresql", greeting1, profiler.Greet}, {"postgresql", handshake, profiler.TLS}, {"postgresql", turn1, profiler.Auth},
		{"mongodb", handshake, profiler.TLS}, {"mongodb", verifying, profiler.Verify}, {"mongodb", turn1, profiler.Hello},
		{"mongodb", turn2, profiler.Auth},
	} {
		for how, kind := range map[ending]string{closes: "EOF", stalls: "deadline", canceled: "cancel"} {
			t.Run(fmt.Sprintf("%s, %v, %s", tt.system, tt.at, kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					y := &play{system: tt.system, secure: true, turns: 2, breakAt: tt.at, how: how, late: give}
					y.client, y.server = full.configs(tls.VersionTLS13)
					at := waited[tt.at] // of the break
					if at == 0 {
						at = begun
						if tt.system != "mongodb" {
							at += greetTime
						}
						if tt.at > handshake {
							at += helloTime + checkTime
						}
						if tt.at > verifying {
							at += ocspTime
						}
						if tt.at > turn1 {
							at += answerTime
						}
					}
					var total time.Duration
					outcome := profiler.Failed
					switch how {
					case closes:
						total = at + give
						if tt.at == turn2 {
							total += computeTime
						}
					case stalls:
						total, outcome = deadline, profiler.Timeout
					case canceled:
						y.late = at + computeTime + give
						total, outcome = y.late, profiler.Canceled
					}
					cr, err := y.run(t)
					if err == nil || cr.Err != err || cr.Outcome != outcome {
						t.Errorf("error %v, kept %v, %v; want %v", err, cr.Err, cr.Outcome, outcome)
					}
					if cr.Failed != tt.phase || cr.Duration != total {
						t.Errorf("failed in %v after %v, want %v after %v", cr.Failed, cr.Duration, tt.phase, total)
					}
					want := total - at
					if tt.at == turn2 && tt.phase == profiler.Auth && tt.system != "mongodb" {
						want += answerTime // auth began with turn 1
					}
					if got := cr.Phases[tt.phase].Duration; got != want {
						t.Errorf("%v took %v, want %v", tt.phase, got, want)
					}
					if cr.Phases[profiler.Other].Duration != 0 {
						t.Errorf("other took %v", cr.Phases[profiler.Other].Duration)
					}
				})
			})
		}
	}
}

func TestAFailureOfASetUpStatement(t *testing.T) {
	for _, tt := range []struct {
		name   string
		secure bool
		want   profiler.Phase
	}{
		{"in the clear, where the OK was seen", false, profiler.Setup},
		{"under TLS, where a longer login looks the same", true, profiler.AuthSetup},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := &play{system: "mysql", secure: tt.secure, turns: 2, setup: 1, breakAt: turn2, how: closes, late: 40 * ms}
				y.client, y.server = playShapes()[0].configs(tls.VersionTLS13)
				cr, err := y.run(t)
				if err != io.EOF || cr.Failed != tt.want || cr.Cause != io.EOF {
					t.Errorf("%v: failed in %v with %v, want %v", err, cr.Failed, cr.Cause, tt.want)
				}
			})
		})
	}
}

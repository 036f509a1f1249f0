package mysqlprof

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/profiler"
)

// greeting is protocol 10, version 5.7.0-scripted, with or without CLIENT_SSL.
func greeting(ssl bool) []byte {
	caps := uint32(0x0000a201 | 1<<19) // LONG_PASSWORD, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION; PLUGIN_AUTH
	if ssl {
		caps |= 1 << 11
	}
	p := []byte{10}
	p = append(p, "5.7.0-scripted\x00"...)
	p = append(p, 1, 0, 0, 0)
	p = append(p, "12345678\x00"...)
	p = append(p, byte(caps), byte(caps>>8), 33, 2, 0, byte(caps>>16), byte(caps>>24), 21)
	p = append(p, make([]byte, 10)...)
	p = append(p, "901234567890\x00mysql_native_password\x00"...)
	return packet(0, p)
}

func packet(seq byte, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)
}

func errPacket(seq byte, code int, text string) []byte {
	return packet(seq, append([]byte{0xff, byte(code), byte(code >> 8)}, "#08S01"+text...))
}

func okPacket(seq byte) []byte { return packet(seq, []byte{0, 0, 0, 2, 0, 0, 0}) }

func readPacket(r io.Reader) (seq byte, err error) {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, err
	}
	_, err = io.CopyN(io.Discard, r, int64(h[0])|int64(h[1])<<8|int64(h[2])<<16)
	return h[3], err
}

// script runs a server that does f to every connection.
func script(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f(nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// ports are the client's own in error texts, and clocks.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+|current time \S+`)

// hang keeps a connection until its peer leaves.
func hang(nc net.Conn) { io.Copy(io.Discard, nc) }

func TestEachFailureHasOneCreateWithTheFailedPhase(t *testing.T) {
	trusted, other := certtest.NewCA(certtest.ECDSA), certtest.NewCA(certtest.ECDSA)
	secure := func(leaf certtest.Leaf, ca *certtest.CA, then func(net.Conn)) func(net.Conn) {
		cert := ca.Issue(leaf)
		return func(nc net.Conn) {
			nc.Write(greeting(true))
			readPacket(nc)
			tc := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert.TLS}})
			if tc.Handshake() == nil {
				then(tc)
			}
		}
	}
	login := func(answer []byte) func(net.Conn) {
		return func(nc net.Conn) {
			nc.Write(greeting(false))
			readPacket(nc)
			nc.Write(answer)
			hang(nc)
		}
	}
	tlsLogin := func(answer []byte) func(net.Conn) {
		return secure(certtest.Leaf{}, trusted, func(nc net.Conn) {
			readPacket(nc)
			nc.Write(answer)
			hang(nc)
		})
	}
	for _, tt := range []struct {
		name   string
		server func(net.Conn)
		tls    bool
		params string
		want   profiler.Phase
		advice string
	}{
		{"silence after accept", hang, false, "", profiler.Greet, "said nothing"},
		{"closed after accept", func(net.Conn) {}, false, "", profiler.Greet, "closed without a greeting"},
		{"an error instead of a greeting", func(nc net.Conn) { nc.Write(errPacket(0, 1040, "Too many connections")); hang(nc) }, false, "", profiler.Greet, "no connection left"},
		{"a host that is blocked", func(nc net.Conn) { nc.Write(errPacket(0, 1129, "Host is blocked")); hang(nc) }, false, "", profiler.Greet, "this host"},
		{"an HTTP server on the port", func(nc net.Conn) { nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); hang(nc) }, false, "", profiler.Greet, "port is the database's"},
		{"no TLS offered", func(nc net.Conn) { nc.Write(greeting(false)); hang(nc) }, true, "", profiler.Greet, "offers TLS"},
		{"silence after the ClientHello", func(nc net.Conn) { nc.Write(greeting(true)); hang(nc) }, true, "", profiler.TLS, "no answer"},
		{"closed after the ClientHello", func(nc net.Conn) { nc.Write(greeting(true)); readPacket(nc); nc.Read(make([]byte, 1)) }, true, "", profiler.TLS, "closed on the ClientHello"},
		{"an unknown authority", secure(certtest.Leaf{}, other, hang), true, "", profiler.TLS, "authority"},
		{"a certificate for another name", secure(certtest.Leaf{Names: []string{"db.example.com"}}, trusted, hang), true, "", profiler.TLS, "another name"},
		{"an expired certificate", secure(certtest.Leaf{Expired: true}, trusted, hang), true, "", profiler.TLS, "expired"},
		{"a wrong password in the clear", login(errPacket(2, 1045, "Access denied")), false, "", profiler.Auth, "user, password"},
		{"a wrong password under TLS", tlsLogin(errPacket(3, 1045, "Access denied")), true, "", profiler.Auth, "user, password"},
		{"an unknown database", login(errPacket(2, 1049, "Unknown database")), false, "", profiler.Auth, "database"},
		{"silence after the login", login(nil), false, "", profiler.Auth, "did not answer"},
		{"a session variable that is refused", func(nc net.Conn) {
			nc.Write(greeting(false))
			readPacket(nc)
			nc.Write(okPacket(2))
			readPacket(nc)
			nc.Write(errPacket(1, 1193, "Unknown system variable"))
			hang(nc)
		}, false, "nonsense=1", profiler.Setup, "session variables"},
		{"a session variable that is refused under TLS", secure(certtest.Leaf{}, trusted, func(nc net.Conn) {
			readPacket(nc)
			nc.Write(okPacket(3))
			readPacket(nc)
			nc.Write(errPacket(1, 1193, "Unknown system variable"))
			hang(nc)
		}), true, "nonsense=1", profiler.Setup, "session variables"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			patience := 10 * time.Second
			if strings.HasPrefix(tt.name, "silence") || strings.HasPrefix(tt.name, "an HTTP server") { // the driver waits for more
				t.Parallel()
				patience = time.Second // enough to get there on a busy machine
			}
			addr := script(t, tt.server)
			cfg, err := mysql.ParseDSN("app:secret@tcp(" + addr + ")/app?" + tt.params)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Logger = &mysql.NopLogger{}
			if tt.tls {
				cfg.TLS = &tls.Config{RootCAs: trusted.Pool(), ServerName: "127.0.0.1"}
			}
			run := func(p *profiler.Profiler) error {
				db, err := OpenConfig(p, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				conn, err := db.Conn(ctx)
				if err == nil {
					conn.Close()
				}
				return err
			}
			bare := run(nil)
			p := new(profiler.Profiler)
			wrapped := run(p)
			if bare == nil || wrapped == nil || ports.ReplaceAllString(bare.Error(), "") != ports.ReplaceAllString(wrapped.Error(), "") {
				t.Errorf("the driver says %v, wrapped %v", bare, wrapped)
			}
			r := p.Report()
			e := r.Endpoint(addr, profiler.RolePool)
			// database/sql itself tries again after driver.ErrBadConn, up to three times.
			if e == nil || e.Created != 0 || e.Failed < 1 || e.FailedIn[tt.want.String()] != e.Failed {
				t.Fatalf("report:\n%v\nwant failures in %v alone", r, tt.want)
			}
			if len(r.Failures) != int(e.Failed) || !strings.Contains(r.Failures[0].Advice, tt.advice) {
				t.Errorf("failures %+v, want advice about %q", r.Failures, tt.advice)
			}
			if strings.Contains(r.String(), "secret") {
				t.Errorf("the report holds the password")
			}
		})
	}
}

func TestAnUnusableDSNIsRefusedAtOnce(t *testing.T) {
	for _, dsn := range []string{"app@tcp(127.0.0.1:3306)", "app@tcp(127.0.0.1:3306)/app?tls=nosuchconfig", "://"} {
		db, err := Open(new(profiler.Profiler), dsn)
		if err == nil || db != nil || !strings.HasPrefix(err.Error(), "mysqlprof: ") {
			t.Errorf("Open(%q) = %v, %v; want an error that says mysqlprof", dsn, db, err)
		}
	}
}

func TestANilProfilerWrapsNothing(t *testing.T) {
	cfg := mysql.NewConfig()
	c, err := Connector(nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	bare, _ := mysql.NewConnector(cfg)
	if got, want := typeName(c), typeName(bare); got != want {
		t.Errorf("connector %s, want the driver's own %s", got, want)
	}
}

func TestARegisteredNetworkIsLeftAlone(t *testing.T) {
	addr := script(t, func(nc net.Conn) {
		nc.Write(greeting(false))
		readPacket(nc)
		nc.Write(okPacket(2))
		hang(nc)
	})
	var dialed string
	mysql.RegisterDialContext("tcptunnel", func(_ context.Context, a string) (net.Conn, error) {
		dialed = a
		return net.Dial("tcp", addr)
	})
	defer mysql.DeregisterDialContext("tcptunnel")
	cfg, err := mysql.ParseDSN("app@tcptunnel(far)/app")
	if err != nil {
		t.Fatal(err)
	}
	p := new(profiler.Profiler)
	db, err := OpenConfig(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	e := p.Report().Endpoint("far", profiler.RolePool)
	if dialed != "far" || e == nil || e.Created != 1 || len(e.Breakdown) != 1 || e.Breakdown[0].Phase != "other" {
		t.Errorf("dialed %q, report %+v; want one create in one block", dialed, e)
	}
}

func TestBeforeConnectIsTheHook(t *testing.T) {
	addr := script(t, func(nc net.Conn) {
		nc.Write(greeting(false))
		readPacket(nc)
		nc.Write(okPacket(2))
		hang(nc)
	})
	for network, want := range map[string]profiler.Phase{"tcp": profiler.NoPhase, "tunnel": profiler.Connect} {
		cfg := mysql.NewConfig()
		cfg.Addr = addr
		const pause = 20 * time.Millisecond
		cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
			time.Sleep(pause)
			c.Net = network
			return nil
		}))
		var creates []*profiler.Create
		p := &profiler.Profiler{Sinks: []profiler.Sink{creations(func(c *profiler.Create) { creates = append(creates, c) })}}
		db, err := OpenConfig(p, cfg)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := db.Conn(t.Context())
		if err == nil {
			conn.Close()
		}
		db.Close()
		if len(creates) != 1 || creates[0].Failed != want || creates[0].Phases[profiler.Hook].Duration < pause {
			t.Fatalf("network %q: %v, creates %+v", network, err, creates)
		}
		if want != profiler.NoPhase && !strings.Contains(err.Error(), "set Config.DialFunc") {
			t.Errorf("network %q: %v", network, err)
		}
	}
}

type creations func(*profiler.Create)

func (f creations) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate {
		f(e.Conn.Create())
	}
}

func TestAConfigAndItsDSNAreOneEndpoint(t *testing.T) {
	for addr, want := range map[string]string{"": "127.0.0.1:3306", "db": "db:3306", "db:1": "db:1"} {
		if got := endpoint(&mysql.Config{Addr: addr}).Address; got != want {
			t.Errorf("address %q is counted as %q, want %q", addr, got, want)
		}
	}
}

package mysqlprof

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/profiler"
)

// reset ends a connection with a RST.
func reset(nc net.Conn) {
	nc.(*net.TCPConn).SetLinger(0)
	nc.Close()
}

// failing is a create that fails for a reason beside those of TestEachFailureHasOneCreateWithTheFailedPhase, and its class.
type failing struct {
	name   string
	server func(net.Conn)
	change func(*mysql.Config)
	want   profiler.Phase
	class  profiler.ErrorClass
}

func failures(t *testing.T) []failing {
	ca, other := certtest.NewCA(certtest.ECDSA), certtest.NewCA(certtest.ECDSA)
	cert := ca.Issue(certtest.Leaf{}).TLS
	clientCert := other.Issue(certtest.Leaf{Client: true}).TLS
	secure := func(cfg *tls.Config, then func(net.Conn)) func(net.Conn) {
		if cfg.Certificates == nil {
			cfg.Certificates = []tls.Certificate{cert}
		}
		return func(nc net.Conn) {
			nc.Write(greeting(true))
			readPacket(nc)
			if tc := tls.Server(nc, cfg); tc.Handshake() == nil {
				then(tc)
			} else {
				hang(nc)
			}
		}
	}
	over := func(cfg *tls.Config) func(*mysql.Config) {
		cfg = cfg.Clone()
		cfg.RootCAs, cfg.ServerName = ca.Pool(), "127.0.0.1"
		return func(c *mysql.Config) { c.TLS = cfg }
	}
	clear := func(*mysql.Config) {}
	dial := func(d net.Dialer) func(*mysql.Config) {
		return func(c *mysql.Config) { c.DialFunc = d.DialContext }
	}
	unresolved := func(f func(ctx context.Context, network, addr string) (net.Conn, error)) func(*mysql.Config) {
		d := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: f}}
		return func(c *mysql.Config) { c.Addr = "db.example.test.:3306"; dial(d)(c) }
	}
	answer := func(f func(net.Conn)) func(net.Conn) {
		return func(nc net.Conn) { nc.Write(greeting(false)); readPacket(nc); f(nc) }
	}
	only13, only12 := &tls.Config{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}
	showing := func(c *tls.Config) *tls.Config {
		c = c.Clone()
		c.Certificates = []tls.Certificate{clientCert}
		return c
	}
	mutual := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	return []failing{
		{"a name that does not exist", nil, unresolved(noName(t)), profiler.Resolve, profiler.ClassNotFound},
		{"a resolver that is silent", nil, unresolved(silentResolver(t)), profiler.Resolve, profiler.ClassTimeout},
		{"nothing listens", nil, func(c *mysql.Config) { c.Addr = closedPort }, profiler.Connect, profiler.ClassRefused},
		{"no route", nil, dial(net.Dialer{Control: func(string, string, syscall.RawConn) error { return syscall.EHOSTUNREACH }}),
			profiler.Connect, profiler.ClassUnreachable},
		{"a connect that nobody answers", nil, func(c *mysql.Config) {
			c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, profiler.Connect, profiler.ClassTimeout},
		{"a reset instead of a greeting", func(nc net.Conn) {
			time.Sleep(50 * time.Millisecond) // else connect may be what sees it
			reset(nc)
		}, clear, profiler.Greet, profiler.ClassReset},
		{"a close instead of a greeting", func(net.Conn) {}, clear, profiler.Greet, profiler.ClassClosed},
		{"an HTTP server that waits", func(nc net.Conn) { nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); hang(nc) }, clear,
			profiler.Greet, profiler.ClassProtocol},
		{"an HTTP server that closes", func(nc net.Conn) { nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, clear,
			profiler.Greet, profiler.ClassProtocol},
		{"an SSH server", func(nc net.Conn) { nc.Write([]byte("SSH-2.0-OpenSSH_9.2p1\r\n")); hang(nc) }, over(only13),
			profiler.Greet, profiler.ClassProtocol},
		{"an alert of TLS", func(nc net.Conn) { nc.Write([]byte{21, 3, 1, 0, 2, 2, 10}) }, clear, profiler.Greet, profiler.ClassProtocol},
		{"the beginning of a greeting, then a close", func(nc net.Conn) { nc.Write(greeting(false)[:30]) }, clear,
			profiler.Greet, profiler.ClassClosed},
		{"an error instead of a greeting", func(nc net.Conn) { nc.Write(errPacket(0, 1040, "Too many connections")); hang(nc) }, clear,
			profiler.Greet, profiler.ClassRejected},
		{"a host that is blocked", func(nc net.Conn) { nc.Write(errPacket(0, 1129, "Host is blocked")) }, over(only13),
			profiler.Greet, profiler.ClassRejected},
		{"TLS is not offered", func(nc net.Conn) { nc.Write(greeting(false)); hang(nc) }, over(only13),
			profiler.Greet, profiler.ClassProtocol},
		{"a reset in the handshake", func(nc net.Conn) { nc.Write(greeting(true)); readPacket(nc); nc.Read(make([]byte, 4096)); reset(nc) },
			over(only13), profiler.TLS, profiler.ClassReset},
		{"no TLS after the request for it", func(nc net.Conn) {
			nc.Write(greeting(true))
			readPacket(nc)
			nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			hang(nc)
		}, over(only13), profiler.TLS, profiler.ClassProtocol},
		{"no common version", secure(&tls.Config{MaxVersion: tls.VersionTLS12}, hang), over(only13), profiler.TLS, profiler.ClassAlert},
		{"no common cipher suite", secure(&tls.Config{MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}}, hang),
			over(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}),
			profiler.TLS, profiler.ClassAlert},
		{"an unknown authority", secure(&tls.Config{Certificates: []tls.Certificate{other.Issue(certtest.Leaf{}).TLS}}, hang), over(only13),
			profiler.TLS, profiler.ClassUnknownAuthority},
		{"an expired certificate", secure(&tls.Config{Certificates: []tls.Certificate{ca.Issue(certtest.Leaf{Expired: true}).TLS}}, hang),
			over(only13), profiler.TLS, profiler.ClassExpired},
		{"another name", secure(&tls.Config{Certificates: []tls.Certificate{ca.Issue(certtest.Leaf{Names: []string{"db"}}).TLS}}, hang),
			over(only13), profiler.TLS, profiler.ClassWrongName},
		{"a client certificate is wanted, TLS 1.3", secure(mutual, hang), over(only13), profiler.TLS, profiler.ClassClientCertificate},
		{"a client certificate is wanted, TLS 1.2", secure(mutual, hang), over(only12), profiler.TLS, profiler.ClassClientCertificate},
		{"a client certificate is refused, TLS 1.3", secure(mutual, hang), over(showing(only13)), profiler.TLS, profiler.ClassClientCertificate},
		{"a client certificate is refused, TLS 1.2", secure(mutual, hang), over(showing(only12)), profiler.TLS, profiler.ClassClientCertificate},
		{"a ClientHello that nobody answers", func(nc net.Conn) { nc.Write(greeting(true)); hang(nc) }, over(only13),
			profiler.TLS, profiler.ClassTimeout},
		{"a reset after the login", answer(reset), clear, profiler.Auth, profiler.ClassReset},
		{"a reset after the login under TLS", func(nc net.Conn) {
			secure(new(tls.Config), func(tc net.Conn) { readPacket(tc); reset(nc) })(nc)
		}, over(only13), profiler.Auth, profiler.ClassReset},
		{"silence after the login", answer(hang), clear, profiler.Auth, profiler.ClassTimeout},
		{"a wrong password", answer(func(nc net.Conn) { nc.Write(errPacket(2, 1045, "Access denied")); hang(nc) }), clear,
			profiler.Auth, profiler.ClassRejected},
		{"a close after the login", answer(func(net.Conn) {}), clear, profiler.Auth, profiler.ClassClosed},
		{"silence after a session variable", answer(func(nc net.Conn) { nc.Write(okPacket(2)); hang(nc) }),
			func(c *mysql.Config) { c.Params = map[string]string{"a": "1"} }, profiler.Setup, profiler.ClassTimeout},
		{"a reset after a session variable", answer(func(nc net.Conn) { nc.Write(okPacket(2)); readPacket(nc); reset(nc) }),
			func(c *mysql.Config) { c.Params = map[string]string{"a": "1"} }, profiler.Setup, profiler.ClassReset},
	}
}

// waiting are the failures in which the driver takes what came for the beginning of something longer.
var waiting = []string{"an HTTP server that waits", "an SSH server", "an alert of TLS"}

// words are what the other side showed in the clear: its protocol, and the number of its error.
type words struct {
	protocol profiler.Protocol
	code     string
}

// inTheClear lists the failures in which that was anything but MySQL's protocol without an error.
var inTheClear = map[string]words{
	"a reset instead of a greeting":  {},
	"a close instead of a greeting":  {},
	"an HTTP server that waits":      {profiler.ProtocolHTTP, ""},
	"an HTTP server that closes":     {profiler.ProtocolHTTP, ""},
	"an SSH server":                  {profiler.ProtocolSSH, ""},
	"an alert of TLS":                {profiler.ProtocolTLS, ""},
	"an error instead of a greeting": {profiler.ProtocolMySQL, "1040"},
	"a host that is blocked":         {profiler.ProtocolMySQL, "1129"},
	"a wrong password":               {profiler.ProtocolMySQL, "1045"},
}

// kept is a Sink that keeps the creates.
type kept struct{ creates []*profiler.Create }

func (k *kept) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate {
		k.creates = append(k.creates, e.Conn.Create())
	}
}

func TestEachFailureHasAClass(t *testing.T) {
	for _, tt := range failures(t) {
		t.Run(tt.name, func(t *testing.T) {
			server := tt.server
			if server == nil {
				server = hang
			}
			cfg := mysql.NewConfig()
			cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Logger = "app", "secret", "tcp", script(t, server), &mysql.NopLogger{}
			tt.change(cfg)
			patience := 10 * time.Second
			if tt.class == profiler.ClassTimeout || slices.Contains(waiting, tt.name) {
				t.Parallel()
				patience = time.Second // enough to get there on a busy machine
			}
			run := func(p *profiler.Profiler) error {
				c, err := Connector(p, cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var conn driver.Conn
				if conn, err = c.Connect(ctx); err == nil {
					conn.Close()
				}
				return err
			}
			bare := run(nil)
			var sink kept
			err := run(&profiler.Profiler{Sinks: []profiler.Sink{&sink}})
			if bare == nil || err == nil || ports.ReplaceAllString(bare.Error(), "") != ports.ReplaceAllString(err.Error(), "") {
				t.Errorf("the driver says %v, profiled %v", bare, err)
			}
			if len(sink.creates) != 1 {
				t.Fatalf("%d creates were reported, want 1", len(sink.creates))
			}
			cr := sink.creates[0]
			if cr.Failed != tt.want || cr.Err != err || phaseSum(cr) != cr.Duration {
				t.Errorf("failed in %v with %v (%v), want %v", cr.Failed, cr.Err, cr.Cause, tt.want)
			}
			if got := cr.Class; got != tt.class {
				t.Errorf("class %q of %v (%v), want %q", got, cr.Err, cr.Cause, tt.class)
			}
			want, listed := inTheClear[tt.name]
			if !listed && tt.want >= profiler.Greet {
				want.protocol = profiler.ProtocolMySQL
			}
			if got := (words{cr.Wire.Protocol, cr.Wire.ServerError.String()}); got != want {
				t.Errorf("the peer said %v, want %v", got, want)
			}
			if strings.HasPrefix(tt.name, "a ClientHello") && (cr.TLS.HelloSize < 200 || cr.TLS.BytesIn != 0 || cr.TLS.BytesOut == 0) {
				t.Errorf("TLS %+v; want the size of the ClientHello, bytes out and none in", cr.TLS)
			}
		})
	}
}

// closedPort is where nothing listens: not a port that was free a moment ago, since another test's server may have it by now.
const closedPort = "127.0.0.1:1"

type resolverDial = func(ctx context.Context, network, addr string) (net.Conn, error)

// noName dials a resolver that knows no name.
func noName(t *testing.T) resolverDial {
	return resolver(t, func(pc net.PacketConn, query []byte, from net.Addr) {
		const answers, nameError = 0x80, 0x83 // RFC 1035 §4.1.1
		query[2], query[3] = query[2]|answers, nameError
		pc.WriteTo(query, from)
	})
}

// silentResolver dials a resolver that never answers.
func silentResolver(t *testing.T) resolverDial {
	return resolver(t, func(net.PacketConn, []byte, net.Addr) {})
}

func resolver(t *testing.T, reply func(pc net.PacketConn, query []byte, from net.Addr)) resolverDial {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			reply(pc, b[:n], from)
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		return impatient{nc.(*net.UDPConn)}, nil
	}
}

// impatient shortens the resolver's 5 s.
type impatient struct{ *net.UDPConn }

func (c impatient) SetDeadline(time.Time) error {
	return c.UDPConn.SetDeadline(time.Now().Add(40 * time.Millisecond))
}

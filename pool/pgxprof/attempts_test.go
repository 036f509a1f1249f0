package pgxprof

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// onlySecure is a server that refuses a login without TLS with a word, as pg_hba.conf's hostssl does, and leads all others to addr.
func onlySecure(addr string) func(net.Conn) {
	return func(nc net.Conn) {
		head := make([]byte, 8)
		if _, err := io.ReadFull(nc, head); err != nil {
			return
		}
		if string(head) != string(sslRequest) {
			io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(head))-8)
			const text = "SFATAL\x00VFATAL\x00C28000\x00Mno pg_hba.conf entry, no encryption\x00\x00"
			nc.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, 4+uint32(len(text))), text...))
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		server.Write(head)
		go func() { io.Copy(nc, server); nc.Close() }()
		io.Copy(server, nc)
		server.Close()
	}
}

// What each address of a connect came to: a refusal, a word in the clear, the server's own answer to a login, or the driver's to the server.
func TestEachAttemptHasItsOwnError(t *testing.T) {
	s := postgrestest.Start(t)
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	url := func(hosts string, params string) *pgx.ConnConfig {
		t.Helper()
		cfg, err := pgx.ParseConfig("postgres://" + postgrestest.User + ":" + postgrestest.Password + "@" + hosts + "/" + postgrestest.Database + "?" + params)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	hangsUp := script(t, func(nc net.Conn) { nc.Read(make([]byte, 100)) })
	pgError := func(code string) func(error) bool {
		return func(err error) bool {
			pe := (*pgconn.PgError)(nil)
			return errors.As(err, &pe) && pe.Code == code
		}
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	text := func(part string) func(error) bool {
		return func(err error) bool { return strings.Contains(err.Error(), part) }
	}
	type lost struct {
		addr    string
		reached profiler.Phase
		is      func(error) bool
	}
	for _, tt := range []struct {
		name   string
		cfg    *pgx.ConnConfig
		lost   []lost
		phases string
		secure bool
	}{
		{"several hosts", url(refused.Addr().String()+","+hangsUp+","+s.Addr, "sslmode=require"), []lost{
			{refused.Addr().String(), profiler.Connect, is(syscall.ECONNREFUSED)},
			{hangsUp, profiler.Greet, is(io.EOF)},
		}, "attempts connect greet tls verify auth", true},
		{"sslmode=prefer, without TLS", url(script(t, without(s.Addr)), "sslmode=prefer"), []lost{
			{"", profiler.Greet, text("does not offer TLS")},
		}, "attempts connect auth", false},
		{"sslmode=allow, with TLS only", url(script(t, onlySecure(s.Addr)), "sslmode=allow"), []lost{
			{"", profiler.Auth, pgError("28000")},
		}, "attempts connect greet tls verify auth", true},
		{"target_session_attrs", url(s.Addr+","+s.Addr, "sslmode=require&target_session_attrs=prefer-standby"), []lost{
			{s.Addr, profiler.Setup, text("standby")},
			{s.Addr, profiler.Setup, text("standby")},
		}, "attempts connect greet tls verify auth setup", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := new(profiler.Profiler)
			_, cr := connect(t, p, tt.cfg)
			if got := phaseNames(cr); got != tt.phases || cr.TLS.Done != tt.secure || cr.TLS.Seen != tt.secure {
				t.Errorf("phases %q, TLS %+v; want %q", got, cr.TLS, tt.phases)
			}
			if len(cr.Attempts) != len(tt.lost)+1 {
				t.Fatalf("attempts %+v, want %d lost ones and the winner", cr.Attempts, len(tt.lost))
			}
			var sum time.Duration
			for i, want := range tt.lost {
				a := cr.Attempts[i]
				if a.Err == nil || !want.is(a.Err) || a.Reached != want.reached || want.addr != "" && a.Address != want.addr {
					t.Errorf("attempt %+v, want one of %s that was lost in %v", a, want.addr, want.reached)
				}
				sum += a.Duration
			}
			if w := cr.Attempts[len(tt.lost)]; w.Err != nil || w.Reached != profiler.NoPhase {
				t.Errorf("the winner %+v", w)
			}
			if d := cr.Phases[profiler.Attempts].Duration; d < sum {
				t.Errorf("attempts took %v, their phase %v", sum, d)
			}
			if r := p.Report(); len(r.Endpoints) != 1 || r.Endpoints[0].Created != 1 || r.Endpoints[0].Failed != 0 {
				t.Errorf("report %v, want one create", r)
			}
		})
	}
}

// The server says of a session's own wishes only after a login: both servers are asked, and neither will do.
func TestAConnectThatNoServerSuitsIsOneFailedCreate(t *testing.T) {
	s := postgrestest.Start(t)
	var rec recorder
	p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
	cfg, err := pgx.ParseConfig("postgres://" + postgrestest.User + ":" + postgrestest.Password + "@" + s.Addr + "," + s.Addr + "/" +
		postgrestest.Database + "?sslmode=require&target_session_attrs=standby")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.ConnectConfig(t.Context(), InstrumentConn(p, cfg)); err == nil {
		t.Fatal("a primary passed for a standby")
	}
	crs := rec.of(profiler.RolePool)
	if len(crs) != 1 || crs[0].Failed != profiler.Setup || len(crs[0].Attempts) != 2 || crs[0].Attempts[0].Reached != profiler.Setup {
		t.Fatalf("creates %+v, want one with two attempts that both logged in", crs)
	}
	checkSum(t, crs[0])
	if e := p.Report().Endpoint("", profiler.RolePool); e.Failed != 1 || e.Created != 0 || e.Live != 0 {
		t.Errorf("report %+v", e)
	}
}

func TestOtherWaysToTheServer(t *testing.T) {
	s := postgrestest.Start(t)
	client := s.CA.Issue(certtest.Leaf{Client: true}).TLS
	asking := serverTLS(s)
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, s.CA.Pool()
	directly := serverTLS(s)
	directly.NextProtos = []string{"postgresql"}
	sixth := func(t *testing.T) string {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Skipf("no IPv6 here: %v", err)
		}
		r := &relay{server: s.Addr}
		serve(t, l, r.client)
		return l.Addr().String()
	}
	for _, tt := range []struct {
		name   string
		addr   func(t *testing.T) string
		change func(*pgx.ConnConfig)
		phases string
		check  func(*profiler.Create) bool
	}{
		{"IPv6", sixth, func(c *pgx.ConnConfig) { c.TLSConfig = nil }, "connect auth",
			func(cr *profiler.Create) bool { return strings.HasPrefix(cr.Wire.Peer, "[::1]:") }},
		{"sslnegotiation=direct", func(t *testing.T) string { return newSecureRelay(t, s.Addr, directly, true).addr }, func(c *pgx.ConnConfig) {
			c.SSLNegotiation = "direct"
			c.TLSConfig.NextProtos = []string{"postgresql"}
		}, "connect tls verify auth", func(cr *profiler.Create) bool { return cr.TLS.Done && len(cr.TLS.ALPN) == 1 }},
		{"a client's certificate", func(t *testing.T) string { return newSecureRelay(t, s.Addr, asking, false).addr }, func(c *pgx.ConnConfig) {
			c.TLSConfig.Certificates = []tls.Certificate{client}
		}, "connect greet tls verify auth", func(cr *profiler.Create) bool { return cr.TLS.Done && cr.TLS.ClientCert }},
		{"a session that is resumed", func(t *testing.T) string { return newSecureRelay(t, s.Addr, serverTLS(s), false).addr }, func(c *pgx.ConnConfig) {
			c.TLSConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			conn, err := pgx.ConnectConfig(context.Background(), c)
			if err == nil {
				conn.Close(context.Background())
			}
		}, "connect greet tls verify auth", func(cr *profiler.Create) bool { return cr.TLS.Done && cr.TLS.Resumed }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := to(t, s.Config(postgrestest.Verified), tt.addr(t))
			tt.change(cfg)
			conn, cr := connect(t, new(profiler.Profiler), cfg)
			if got := phaseNames(cr); got != tt.phases || !tt.check(cr) {
				t.Errorf("phases %q, want %q; %+v", got, tt.phases, cr)
			}
			if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TLS 1.3's server refuses a client's certificate when the client's handshake is over: the failure shows as the login's, and is TLS's.
func TestACertificateThatIsRefusedLateIsTLSsFailure(t *testing.T) {
	s := postgrestest.Start(t)
	asking := serverTLS(s)
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, s.CA.Pool()
	other := certtest.NewCA(certtest.ECDSA).Issue(certtest.Leaf{Client: true}).TLS
	for _, tt := range []struct {
		name    string
		version uint16
		certs   []tls.Certificate
	}{
		{"of another authority", tls.VersionTLS13, []tls.Certificate{other}},
		{"none", tls.VersionTLS13, nil},
		{"of another authority, TLS 1.2", tls.VersionTLS12, []tls.Certificate{other}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := to(t, s.Config(postgrestest.Verified), newSecureRelay(t, s.Addr, asking, false).addr)
			cfg.TLSConfig.MaxVersion = tt.version
			cfg.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(tt.certs) == 0 {
					return new(tls.Certificate), nil
				}
				return &tt.certs[0], nil
			}
			var rec recorder
			p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
			if _, err := pgx.ConnectConfig(t.Context(), InstrumentConn(p, cfg)); err == nil {
				t.Fatal("the connection was made")
			}
			crs := rec.of(profiler.RolePool)
			if len(crs) != 1 || crs[0].Failed != profiler.TLS || crs[0].Class != profiler.ClassClientCertificate {
				t.Fatalf("creates %+v, want one that failed in TLS", crs[0])
			}
			checkSum(t, crs[0])
		})
	}
}

// C25: a slow look-up is no slow connect. C28: what accepts at once need not be the database, and a slow database is neither a slow network
// nor a slow login. C30: what the program does before the dial is its own.
func TestADelayIsChargedWhereItHappens(t *testing.T) {
	s := postgrestest.Start(t)
	const delay = 200 * time.Millisecond
	for _, tt := range []struct {
		name string
		tls  postgrestest.TLS
		set  func(*pgx.ConnConfig, *relay)
		want profiler.Phase
	}{
		{"a look-up", postgrestest.Verified, func(c *pgx.ConnConfig, _ *relay) {
			c.Host = "localhost"
			c.LookupFunc = func(context.Context, string) ([]string, error) {
				time.Sleep(delay)
				return []string{"127.0.0.1"}, nil
			}
		}, profiler.Resolve},
		{"a relay under TLS", postgrestest.Verified, func(_ *pgx.ConnConfig, r *relay) { r.accept.Store(int64(delay)) }, profiler.Greet},
		{"a relay in the clear", postgrestest.Plain, func(_ *pgx.ConnConfig, r *relay) { r.accept.Store(int64(delay)) }, profiler.Auth},
		{"a dialer", postgrestest.Verified, func(c *pgx.ConnConfig, _ *relay) {
			c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				time.Sleep(delay)
				nc, err := new(net.Dialer).DialContext(context.WithoutCancel(context.Background()), network, addr)
				return nc, err
			}
		}, profiler.Connect},
		{"a check of certificates", postgrestest.Verified, func(c *pgx.ConnConfig, _ *relay) {
			c.TLSConfig.VerifyPeerCertificate = nil
			c.TLSConfig.VerifyConnection = func(tls.ConnectionState) error { time.Sleep(delay); return nil }
		}, profiler.TLS},
		{"a statement of set-up", postgrestest.Verified, func(c *pgx.ConnConfig, _ *relay) {
			c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
				return conn.Exec(ctx, "SELECT pg_sleep(0.2)").Close()
			}
		}, profiler.Setup},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newSecureRelay(t, s.Addr, serverTLS(s), false)
			if tt.tls == postgrestest.Plain {
				r = newRelay(t, s.Addr)
			}
			cfg := to(t, s.Config(tt.tls), r.addr)
			tt.set(cfg, r)
			_, cr := connect(t, new(profiler.Profiler), cfg)
			if d := cr.Phases[tt.want].Duration; d < delay {
				t.Errorf("%v took %v; the delay of %v was there: %+v", tt.want, d, delay, cr.Phases)
			}
			if tt.want == profiler.Connect && cr.Wire.Transport != profiler.TransportOpaque {
				t.Errorf("a dialer that shows nothing is %v", cr.Wire.Transport)
			}
		})
	}
}

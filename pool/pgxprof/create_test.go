package pgxprof

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

func TestACreateShowsItsPhases(t *testing.T) {
	s := postgrestest.Start(t)
	one := func(ctx context.Context, c *pgconn.PgConn) error {
		_, err := c.Exec(ctx, "SELECT 1").ReadAll()
		return err
	}
	named := func(cfg *pgx.ConnConfig) {
		cfg.Host = "localhost"
		cfg.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
	}
	for _, tt := range []struct {
		name   string
		cfg    *pgx.ConnConfig
		change func(*pgx.ConnConfig)
		want   string
		setup  int
	}{
		{"in the clear", s.Config(postgrestest.Plain), nil, "connect auth", 0},
		{"under TLS", s.Config(postgrestest.Verified), nil, "connect greet tls verify auth", 0},
		{"under TLS 1.2", s.Config(postgrestest.TLS12), nil, "connect greet tls verify auth", 0},
		{"over a unix socket", s.SocketConfig(), nil, "connect auth", 0},
		{"with a host name", s.Config(postgrestest.Verified), named, "resolve connect greet tls verify auth", 0},
		{"with AfterConnect", s.Config(postgrestest.Verified), func(c *pgx.ConnConfig) { c.AfterConnect = one },
			"connect greet tls verify auth setup", 1},
		{"with AfterConnect in the clear", s.Config(postgrestest.Plain), func(c *pgx.ConnConfig) { c.AfterConnect = one },
			"connect auth setup", 1},
		{"with an AfterConnect that asks nothing", s.Config(postgrestest.Verified),
			func(c *pgx.ConnConfig) { c.AfterConnect = func(context.Context, *pgconn.PgConn) error { return nil } },
			"connect greet tls verify auth setup", 0},
		{"with target_session_attrs", s.Config(postgrestest.Verified),
			func(c *pgx.ConnConfig) { c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite },
			"connect greet tls verify auth setup", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change != nil {
				tt.change(tt.cfg)
			}
			p := new(profiler.Profiler)
			_, cr := connect(t, p, tt.cfg)
			if got := phaseNames(cr); got != tt.want {
				t.Errorf("phases %q, want %q", got, tt.want)
			}
			// SCRAM: start-up, first and final message (protocol §55.3.1).
			if cr.Wire.AuthTurns != 3 || int(cr.Wire.SetupTurns) != tt.setup || !strings.HasPrefix(cr.Wire.ServerVersion, "1") {
				t.Errorf("wire %+v, want 3 turns of login and %d of set-up", cr.Wire, tt.setup)
			}
			if auth := cr.Phases[profiler.Auth].Duration; cr.Wire.AuthWait <= 0 || cr.Wire.AuthWait >= auth {
				t.Errorf("auth %v, of it waiting %v; want some for computing", auth, cr.Wire.AuthWait)
			}
			if secure := tt.cfg.TLSConfig != nil; cr.TLS.Seen != secure || cr.TLS.Done != secure || !cr.Caller || cr.Resolved.Lookups > 1 {
				t.Errorf("TLS %+v, by caller %v, resolved %+v", cr.TLS, cr.Caller, cr.Resolved)
			}
			if first, reused := p.Report().Endpoint("", profiler.RolePool).Queries(); first+reused != 0 {
				t.Errorf("%d first, %d reused queries; set-up must not count", first, reused)
			}
		})
	}
}

func TestAPoolsHooksArePartOfTheCreate(t *testing.T) {
	s := postgrestest.Start(t)
	var rec recorder
	p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
	cfg := poolConfig(t, s, s.Config(postgrestest.Verified))
	cfg.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
		cc.DialFunc = new(net.Dialer).DialContext // what a program does there is watched, too
		return nil
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SET application_name = 'a'")
		return err
	}
	db := open(t, Instrument(p, cfg))
	if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	crs := rec.of(profiler.RolePool)
	if len(crs) != 1 || phaseNames(crs[0]) != "hook connect greet tls verify auth setup" || crs[0].Wire.SetupTurns < 1 || !crs[0].Caller {
		t.Fatalf("creates %+v", crs)
	}
	checkSum(t, crs[0])
	if first, reused := p.Report().Endpoint("", profiler.RolePool).Queries(); first != 1 || reused != 0 {
		t.Errorf("%d first, %d reused queries; want the caller's alone", first, reused)
	}
}

func TestAConnectOfSeveralDialsIsOneCreate(t *testing.T) {
	s := postgrestest.Start(t)
	dead := script(t, func(net.Conn) {})
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	fallback := func(addr string, secure *tls.Config) *pgconn.FallbackConfig {
		cc := to(t, s.Config(postgrestest.Plain), addr)
		return &pgconn.FallbackConfig{Host: cc.Host, Port: cc.Port, TLSConfig: secure}
	}
	secure := s.ClientTLS(postgrestest.Verified)
	plain := without(s.Addr)
	for _, tt := range []struct {
		name    string
		first   string
		then    *pgconn.FallbackConfig
		reached profiler.Phase
		want    string
	}{
		{"the first host refuses", refused.Addr().String(), fallback(s.Addr, secure), profiler.Connect,
			"attempts connect greet tls verify auth"},
		{"the first host hangs up", dead, fallback(s.Addr, secure), profiler.Greet, "attempts connect greet tls verify auth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := to(t, s.Config(postgrestest.Verified), tt.first)
			cfg.Fallbacks = []*pgconn.FallbackConfig{tt.then}
			checkSecond(t, cfg, tt.reached, tt.want, true)
		})
	}
	// C23: the server's N is an attempt, and the connection that is used is seen to be in the clear.
	t.Run("sslmode=prefer and no TLS", func(t *testing.T) {
		addr := script(t, plain)
		cfg := to(t, s.Config(postgrestest.Verified), addr)
		cfg.Fallbacks = []*pgconn.FallbackConfig{fallback(addr, nil)}
		checkSecond(t, cfg, profiler.Greet, "attempts connect auth", false)
	})
}

// checkSecond checks that a connect succeeds with its second dial.
func checkSecond(t *testing.T, cfg *pgx.ConnConfig, reached profiler.Phase, want string, secure bool) {
	t.Helper()
	p := new(profiler.Profiler)
	_, cr := connect(t, p, cfg)
	if got := phaseNames(cr); got != want {
		t.Errorf("phases %q, want %q", got, want)
	}
	if a := cr.Attempts; len(a) != 2 || a[0].Reached != reached || a[0].Err == nil || a[1].Reached != profiler.NoPhase || a[1].Err != nil {
		t.Errorf("attempts %+v, want a lost one in %v and the winner", a, reached)
	}
	if cr.TLS.Seen != secure || cr.TLS.Done != secure {
		t.Errorf("TLS %+v", cr.TLS)
	}
	if r := p.Report(); len(r.Endpoints) != 1 || r.Endpoints[0].Created != 1 || r.Endpoints[0].Failed != 0 {
		t.Errorf("report %v, want one create", r)
	}
}

func TestPreferAsksTwiceForOneName(t *testing.T) {
	s := postgrestest.Start(t)
	cfg, err := pgx.ParseConfig(s.DSN(postgrestest.User, postgrestest.Password, "sslmode=prefer"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Host, cfg.Fallbacks[0].Host = "db.example.com", "db.example.com"
	asked := 0
	cfg.LookupFunc = func(context.Context, string) ([]string, error) {
		asked++
		return []string{"127.0.0.1"}, nil
	}
	_, cr := connect(t, new(profiler.Profiler), cfg)
	if r := cr.Resolved; asked != 2 || r.Lookups != 2 || r.Answers != 2 || r.Host != "db.example.com" {
		t.Errorf("asked %d times, resolved %+v", asked, r)
	}
	if got := phaseNames(cr); got != "resolve connect greet tls verify auth" || len(cr.Attempts) != 1 {
		t.Errorf("phases %q, attempts %+v", got, cr.Attempts)
	}
}

func TestChannelBindingStillWorks(t *testing.T) {
	s := postgrestest.Start(t)
	cfg := s.Config(postgrestest.Verified)
	cfg.ChannelBinding = "require"
	connect(t, new(profiler.Profiler), cfg)
	cfg = s.Config(postgrestest.Plain)
	cfg.ChannelBinding = "require"
	if _, err := pgx.ConnectConfig(t.Context(), InstrumentConn(new(profiler.Profiler), cfg)); err == nil {
		t.Error("channel binding without TLS went well")
	}
}

// C30: the program's dialer encrypts by itself. The create must not say that there was no TLS.
func TestADialerThatEncryptsIsReportedAsSuch(t *testing.T) {
	s := postgrestest.Start(t)
	cfg := s.Config(postgrestest.Plain)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, err := nc.Write(sslRequest); err != nil {
			return nil, err
		}
		b := make([]byte, 1)
		if _, err := nc.Read(b); err != nil || b[0] != 'S' {
			return nil, errors.Join(err, errors.New("no TLS"))
		}
		tc := tls.Client(nc, s.ClientTLS(postgrestest.Verified))
		return tc, tc.HandshakeContext(ctx)
	}
	_, cr := connect(t, new(profiler.Profiler), cfg)
	if !cr.TLS.Inside || cr.TLS.Seen || cr.TLS.Version != tls.VersionTLS13 || phaseNames(cr) != "connect auth" {
		t.Errorf("TLS %+v, phases %q", cr.TLS, phaseNames(cr))
	}
}

package pgxprof

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// ports are the client's own in error texts.
var ports = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func TestEachFailureHasOneCreateWithTheFailedPhase(t *testing.T) {
	s := postgrestest.Start(t)
	own := errors.New("the program's own")
	at := func(addr string, tls postgrestest.TLS) *pgx.ConnConfig { return to(t, s.Config(tls), addr) }
	with := func(tls postgrestest.TLS, change func(*pgx.ConnConfig)) *pgx.ConnConfig {
		cfg := s.Config(tls)
		change(cfg)
		return cfg
	}
	wrongPassword := func(c *pgx.ConnConfig) { c.Password = "wrong" }
	noDatabase := func(c *pgx.ConnConfig) { c.Database = "nosuchdatabase" }
	silent := script(t, hang)
	const plain, secure = postgrestest.Plain, postgrestest.Verified
	for _, tt := range []struct {
		name   string
		cfg    *pgx.ConnConfig
		want   profiler.Phase
		advice string
	}{
		{"a name that is not found", with(secure, func(c *pgx.ConnConfig) {
			c.Host = "db.example.com"
			c.LookupFunc = func(context.Context, string) ([]string, error) { return nil, own }
		}), profiler.Resolve, "host name"},
		{"nobody listens", at("127.0.0.1:1", secure), profiler.Connect, "nothing listens"},
		{"the program's dialer fails", with(secure, func(c *pgx.ConnConfig) {
			c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, own }
		}), profiler.Connect, "host and port"},
		{"silence after accept", at(silent, secure), profiler.Greet, "said nothing"},
		{"silence after accept in the clear", at(silent, plain), profiler.Auth, "did not answer"},
		{"closed after accept", at(script(t, func(nc net.Conn) { nc.Read(make([]byte, 8)) }), secure), profiler.Greet, "closed without"},
		{"an HTTP server on the port", at(script(t, func(nc net.Conn) {
			nc.Read(make([]byte, 8))
			nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			hang(nc)
		}), secure), profiler.Greet, "port is the database's"},
		{"TLS is required and not offered", at(script(t, without(s.Addr)), secure), profiler.Greet, "offers TLS"},
		{"silence after the ClientHello", at(script(t, func(nc net.Conn) {
			nc.Read(make([]byte, 8))
			nc.Write([]byte("S"))
			hang(nc)
		}), secure), profiler.TLS, "no answer"},
		{"an unknown authority", with(secure, func(c *pgx.ConnConfig) { c.TLSConfig.RootCAs = certtest.NewCA(certtest.ECDSA).Pool() }),
			profiler.TLS, "authority"},
		{"a certificate for another name", with(secure, func(c *pgx.ConnConfig) { c.TLSConfig.ServerName = "db.example.com" }),
			profiler.TLS, "another name"},
		{"no version in common", with(secure, func(c *pgx.ConnConfig) { c.TLSConfig.MinVersion, c.TLSConfig.MaxVersion = 0x0301, 0x0301 }),
			profiler.TLS, "TLS version"},
		{"a wrong password under TLS", with(secure, wrongPassword), profiler.Auth, "user, password"},
		{"a wrong password in the clear", with(plain, wrongPassword), profiler.Auth, "user, password"},
		{"an unknown database under TLS", with(secure, noDatabase), profiler.Auth, "database"},
		{"an unknown database in the clear", with(plain, noDatabase), profiler.Auth, "database"},
		{"AfterConnect fails", with(secure, func(c *pgx.ConnConfig) {
			c.AfterConnect = func(ctx context.Context, pc *pgconn.PgConn) error {
				_, err := pc.Exec(ctx, "SET nonsense = 1").ReadAll()
				return err
			}
		}), profiler.Setup, "set-up"},
		{"the server is not the one that is wanted", with(secure, func(c *pgx.ConnConfig) {
			c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsStandby
		}), profiler.Setup, "set-up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			patience := 20 * time.Second
			if strings.HasPrefix(tt.name, "silence") { // time enough to get there on a busy machine
				patience = time.Second
			}
			run := func(p *profiler.Profiler) error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				conn, err := pgx.ConnectConfig(ctx, InstrumentConn(p, tt.cfg))
				if err == nil {
					conn.Close(ctx)
				}
				return err
			}
			var rec recorder
			p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
			bare, wrapped := run(nil), run(p)
			if bare == nil || wrapped == nil || ports.ReplaceAllString(bare.Error(), "") != ports.ReplaceAllString(wrapped.Error(), "") {
				t.Errorf("the driver says %v, profiled %v", bare, wrapped)
			}
			crs := rec.of(profiler.RolePool)
			if len(rec.creates) != 1 || len(crs) != 1 || crs[0].Failed != tt.want || crs[0].Err != wrapped {
				t.Fatalf("creates %+v, want one that failed in %v with the driver's error", crs, tt.want)
			}
			checkSum(t, crs[0])
			if !crs[0].Phases[tt.want].Present {
				t.Errorf("phases %q lack the failed one", phaseNames(crs[0]))
			}
			r := p.Report()
			if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Advice, tt.advice) {
				t.Errorf("failures %+v, want advice about %q", r.Failures, tt.advice)
			}
			if strings.Contains(r.String(), postgrestest.Password) {
				t.Error("the report holds the password")
			}
		})
	}
}

func TestAFailingHookOfThePoolIsCharged(t *testing.T) {
	s := postgrestest.Start(t)
	own := errors.New("the program's own")
	for _, tt := range []struct {
		name   string
		before func(context.Context, *pgx.ConnConfig) error
		after  func(context.Context, *pgx.Conn) error
		want   profiler.Phase
	}{
		{"BeforeConnect", func(context.Context, *pgx.ConnConfig) error { return own }, nil, profiler.Hook},
		{"AfterConnect", nil, func(context.Context, *pgx.Conn) error { return own }, profiler.Setup},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rec recorder
			p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
			cfg := poolConfig(t, s, s.Config(postgrestest.Verified))
			cfg.BeforeConnect, cfg.AfterConnect = tt.before, tt.after
			db := open(t, Instrument(p, cfg))
			if err := db.Ping(t.Context()); err != own {
				t.Errorf("ping: %v, want %v itself", err, own)
			}
			crs := rec.of(profiler.RolePool)
			if len(crs) != 1 || crs[0].Failed != tt.want || crs[0].Err != own {
				t.Fatalf("creates %+v, want one that failed in %v", crs, tt.want)
			}
			checkSum(t, crs[0])
		})
	}
}

package pgxprof

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

// verifier is what PostgreSQL keeps of a password (RFC 5803).
func verifier(t *testing.T, password string, iterations int) string {
	salt := []byte("a salt of its own")
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, b64(salt), b64(stored[:]), b64(mac("Server Key")))
}

func TestALoginInTheClearShowsItsMethod(t *testing.T) {
	s := postgrestest.Start(t)
	root, err := pgx.ConnectConfig(t.Context(), s.RootConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close(context.Background())
	if _, err := root.Exec(t.Context(), "CREATE ROLE careful LOGIN PASSWORD '"+verifier(t, "p", 9000)+"'"); err != nil {
		t.Fatal(err)
	}
	defer root.Exec(context.Background(), "DROP ROLE careful")
	careful := func(tls postgrestest.TLS, password string) *pgx.ConnConfig {
		cfg := s.Config(tls)
		cfg.User, cfg.Password = "careful", password
		return cfg
	}
	noDatabase := s.Config(postgrestest.Plain)
	noDatabase.Database = "nosuchdatabase"
	for _, tt := range []struct {
		name       string
		cfg        *pgx.ConnConfig
		method     profiler.AuthMethod
		iterations uint32
		code       string
	}{
		{"SCRAM", s.Config(postgrestest.Plain), profiler.AuthSCRAM, 4096, ""},
		{"SCRAM with more iterations", careful(postgrestest.Plain, "p"), profiler.AuthSCRAM, 9000, ""},
		{"a wrong password", careful(postgrestest.Plain, "q"), profiler.AuthSCRAM, 9000, "28P01"},
		{"an unknown database", noDatabase, profiler.AuthSCRAM, 4096, "3D000"},
		{"over a unix socket", s.SocketConfig(), profiler.AuthSCRAM, 4096, ""},
		{"nothing is asked", s.RootConfig(), profiler.AuthNothing, 0, ""},
		{"under TLS", careful(postgrestest.Verified, "p"), profiler.AuthUnknown, 0, ""},
		{"a wrong password under TLS", careful(postgrestest.Verified, "q"), profiler.AuthUnknown, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cr := create(t, tt.cfg)
			w := cr.Wire
			if w.AuthMethod != tt.method || w.SCRAMIterations != tt.iterations || w.ServerError.String() != tt.code || w.Mismatch {
				t.Errorf("%v: by %v, %d iterations, error %q, mismatch %v; want %v, %d, %q", cr.Err, w.AuthMethod, w.SCRAMIterations, w.ServerError,
					w.Mismatch, tt.method, tt.iterations, tt.code)
			}
			if w.Protocol != profiler.ProtocolPostgreSQL {
				t.Errorf("the peer speaks %v", w.Protocol)
			}
			if tt.code != "" && cr.Class != profiler.ClassRejected {
				t.Errorf("class %q", cr.Class)
			}
		})
	}
}

// create is the one that a connect with cfg makes.
func create(t *testing.T, cfg *pgx.ConnConfig) *profiler.Create {
	t.Helper()
	var rec recorder
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, InstrumentConn(&profiler.Profiler{Sinks: []profiler.Sink{&rec}}, cfg))
	if err == nil {
		conn.Close(ctx)
	}
	crs := rec.of(profiler.RolePool)
	if len(crs) != 1 || crs[0].Err != err {
		t.Fatalf("creates %+v, error %v", crs, err)
	}
	return crs[0]
}

func TestAnotherProtocolOnThePortHasItsClass(t *testing.T) {
	s := postgrestest.Start(t)
	my := mariadbtest.Start(t)
	t.Cleanup(func() { mariadbtest.Stop() })
	web := script(t, func(nc net.Conn) {
		nc.Read(make([]byte, 8192))
		io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n")
		hang(nc)
	})
	patient := httptest.NewServer(http.NotFoundHandler()) // waits for the end of a line
	defer patient.Close()
	ssh := script(t, func(nc net.Conn) {
		io.WriteString(nc, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")
		hang(nc)
	})
	const plain, secure = postgrestest.Plain, postgrestest.Verified
	for _, tt := range []struct {
		name, addr string
		tls        postgrestest.TLS
		want       profiler.Protocol
		phase      profiler.Phase
	}{
		{"HTTP", web, plain, profiler.ProtocolHTTP, profiler.Auth},
		{"HTTP, TLS wanted", web, secure, profiler.ProtocolOther, profiler.Greet}, // pgx reads one byte
		{"SSH", ssh, plain, profiler.ProtocolSSH, profiler.Auth},
		{"SSH, TLS wanted", ssh, secure, profiler.ProtocolSSH, profiler.TLS}, // its S is PostgreSQL's yes
		{"MariaDB", my.Addr, plain, profiler.ProtocolMySQL, profiler.Auth},
		{"MariaDB, TLS wanted", my.Addr, secure, profiler.ProtocolOther, profiler.Greet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := to(t, s.Config(tt.tls), tt.addr)
			cfg.ConnectTimeout = 500 * time.Millisecond
			cr := create(t, cfg)
			if cr.Err == nil || cr.Class != profiler.ClassProtocol || cr.Wire.Protocol != tt.want || cr.Failed != tt.phase {
				t.Errorf("%v (%v) in %v: class %q, the peer speaks %v; want %v in %v", cr.Err, cr.Cause, cr.Failed, cr.Class, cr.Wire.Protocol,
					tt.want, tt.phase)
			}
		})
	}
	t.Run("PostgreSQL that says yes and no more", func(t *testing.T) {
		cfg := to(t, s.Config(secure), script(t, func(nc net.Conn) {
			nc.Read(make([]byte, 8))
			io.WriteString(nc, "S")
			hang(nc)
		}))
		cfg.ConnectTimeout = 100 * time.Millisecond
		if cr := create(t, cfg); cr.Class != profiler.ClassTimeout || cr.Wire.Protocol != profiler.ProtocolPostgreSQL {
			t.Errorf("%v: class %q, the peer speaks %v", cr.Err, cr.Class, cr.Wire.Protocol)
		}
	})
	t.Run("HTTP that says nothing", func(t *testing.T) {
		cfg := to(t, s.Config(plain), patient.Listener.Addr().String())
		cfg.ConnectTimeout = 100 * time.Millisecond
		if cr := create(t, cfg); cr.Class != profiler.ClassTimeout || cr.Wire.Protocol != profiler.ProtocolUnknown {
			t.Errorf("%v: class %q, the peer speaks %v", cr.Err, cr.Class, cr.Wire.Protocol)
		}
	})
}

// C29: the rounds that an account asks for are computed by the client, for every connection. The server does not take them.
func TestALoginOfManyRoundsIsComputingHere(t *testing.T) {
	s := postgrestest.Start(t)
	root, err := pgx.ConnectConfig(t.Context(), s.RootConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close(context.Background())
	rounds := 100_000
	if raceEnabled { // which makes each ten times as long
		rounds = 20_000
	}
	if _, err := root.Exec(t.Context(), "CREATE ROLE thorough LOGIN PASSWORD '"+verifier(t, "p", rounds)+"'"); err != nil {
		t.Fatal(err)
	}
	defer root.Exec(context.Background(), "DROP ROLE thorough")
	begin := time.Now()
	verifier(t, "p", rounds)
	derivation := time.Since(begin)
	for name, tls := range map[string]postgrestest.TLS{"in the clear": postgrestest.Plain, "under TLS": postgrestest.Verified} {
		t.Run(name, func(t *testing.T) {
			cfg := s.Config(tls)
			cfg.User, cfg.Password = "thorough", "p"
			p := new(profiler.Profiler)
			for range 10 {
				conn, err := pgx.ConnectConfig(t.Context(), InstrumentConn(p, cfg))
				if err != nil {
					t.Fatal(err)
				}
				conn.Close(context.Background())
			}
			r := p.Report()
			e := r.Endpoint("", profiler.RolePool)
			var auth time.Duration
			for _, ph := range []profiler.Phase{profiler.Auth, profiler.AuthSetup} {
				if m := e.Measure(profiler.Measure(ph), profiler.OK); m != nil {
					auth += m.Sum
				}
			}
			if local := auth - e.AuthWait; local < 10*derivation/4 || e.AuthWait <= 0 || e.AuthTurns < 20 {
				t.Errorf("of %v of 10 logins %v was spent here, %v waiting in %d turns; one derivation takes %v", auth, local, e.AuthWait, e.AuthTurns, derivation)
			}
			var ids []string
			for _, f := range r.Findings {
				ids = append(ids, f.ID)
			}
			if !slices.Contains(ids, "auth_computes") {
				t.Errorf("findings %v, of logins that took %v and waited %v", ids, auth, e.AuthWait)
			}
		})
	}
}

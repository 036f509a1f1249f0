package mysqlprof

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/profiler"
)

// made is the create of a connection that cfg makes.
func made(t *testing.T, cfg *mysql.Config) *profiler.Create {
	t.Helper()
	cfg.Logger = &mysql.NopLogger{}
	var sink kept
	c, err := Connector(&profiler.Profiler{Sinks: []profiler.Sink{&sink}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err == nil {
		conn.Close()
	}
	if len(sink.creates) != 1 || sink.creates[0].Err != err {
		t.Fatalf("%d creates, %v", len(sink.creates), err)
	}
	return sink.creates[0]
}

func TestALoginInTheClearShowsItsMethod(t *testing.T) {
	s := mariadbtest.Start(t)
	root := sql.OpenDB(must(mysql.NewConnector(s.RootConfig())))
	defer root.Close()
	for _, statement := range []string{
		"INSTALL SONAME 'auth_ed25519'",
		"CREATE OR REPLACE USER ed IDENTIFIED VIA ed25519 USING PASSWORD('ed-password')",
		"GRANT ALL ON " + mariadbtest.Database + ".* TO ed",
	} {
		if _, err := root.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, password string, tls mariadbtest.TLS) *mysql.Config {
		cfg := s.Config(tls)
		cfg.User, cfg.Passwd = user, password
		return cfg
	}
	for _, tt := range []struct {
		name   string
		cfg    *mysql.Config
		method profiler.AuthMethod
		turns  int32
		code   string
		state  string
	}{
		{"the greeting's plugin", s.Config(mariadbtest.Plain), profiler.AuthNativePassword, 1, "", ""},
		{"another plugin", as("ed", "ed-password", mariadbtest.Plain), profiler.AuthEd25519, 2, "", ""},
		{"another plugin, refused", as("ed", "wrong", mariadbtest.Plain), profiler.AuthEd25519, 2, "1045", "28000"},
		{"refused", as(mariadbtest.User, "wrong", mariadbtest.Plain), profiler.AuthNativePassword, 1, "1045", "28000"},
		{"under TLS", s.Config(mariadbtest.Verified), profiler.AuthUnknown, 1, "", ""},
		{"another plugin, under TLS", as("ed", "ed-password", mariadbtest.Verified), profiler.AuthUnknown, 2, "", ""},
		{"refused under TLS", as("ed", "wrong", mariadbtest.Verified), profiler.AuthUnknown, 2, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := made(t, tt.cfg).Wire
			if w.AuthMethod != tt.method || w.AuthTurns != tt.turns || w.ServerError.String() != tt.code || w.ServerError.SQLState() != tt.state {
				t.Errorf("by %v in %d turns, error %q %q; want %v, %d, %q %q", w.AuthMethod, w.AuthTurns, w.ServerError, w.ServerError.SQLState(),
					tt.method, tt.turns, tt.code, tt.state)
			}
			if w.Protocol != profiler.ProtocolMySQL || w.Mismatch || w.AuthPath != 0 || w.SCRAMIterations != 0 {
				t.Errorf("%+v", w)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The driver's own words to a server of caching_sha2_password, which MariaDB is not.
func TestCachingSHA2GoesFastOrFull(t *testing.T) {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	pub := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(&key.PublicKey))})
	sha2 := slices.Concat(greeting(false)[4:len(greeting(false))-len("mysql_native_password\x00")], []byte("caching_sha2_password\x00"))
	more := func(seq byte, b ...byte) []byte { return packet(seq, append([]byte{1}, b...)) }
	fast := func(nc net.Conn) { nc.Write(slices.Concat(more(2, 3), okPacket(3))) }
	full := func(nc net.Conn) {
		nc.Write(more(2, 4))
		readPacket(nc) // asks for the key
		nc.Write(more(4, pub...))
		readPacket(nc) // the password, encrypted with it
		nc.Write(okPacket(6))
	}
	for _, tt := range []struct {
		name     string
		greeting []byte
		change   []byte
		then     func(net.Conn)
		path     profiler.AuthPath
		turns    int32
	}{
		{"fast", packet(0, sha2), nil, fast, profiler.AuthFast, 1},
		{"full", packet(0, sha2), nil, full, profiler.AuthFull, 3},
		{"fast, after a change of plugin", greeting(false), packet(2, []byte("\xfecaching_sha2_password\x0012345678901234567890\x00")),
			func(nc net.Conn) { nc.Write(slices.Concat(more(4, 3), okPacket(5))) }, profiler.AuthFast, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := script(t, func(nc net.Conn) {
				nc.Write(tt.greeting)
				readPacket(nc)
				if tt.change != nil {
					nc.Write(tt.change)
					readPacket(nc)
				}
				tt.then(nc)
				hang(nc)
			})
			cfg := mysql.NewConfig()
			cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = "app", "secret", "tcp", addr
			cr := made(t, cfg)
			if w := cr.Wire; cr.Err != nil || w.AuthMethod != profiler.AuthCachingSHA2 || w.AuthPath != tt.path || w.AuthTurns != tt.turns {
				t.Errorf("%v: by %v, %v, in %d turns; want caching_sha2_password, %v, %d", cr.Err, w.AuthMethod, w.AuthPath, w.AuthTurns, tt.path, tt.turns)
			}
		})
	}
}

func TestAFullServersErrorIsItsOwnClass(t *testing.T) {
	s := mariadbtest.Start(t)
	root := sql.OpenDB(must(mysql.NewConnector(s.RootConfig())))
	defer root.Close()
	root.SetMaxOpenConns(1)
	var was string
	if err := root.QueryRow("SELECT @@GLOBAL.max_connections").Scan(&was); err != nil {
		t.Fatal(err)
	}
	set := func(n string) {
		if _, err := root.ExecContext(context.Background(), "SET GLOBAL max_connections = "+n); err != nil {
			t.Fatal(err)
		}
	}
	defer set(was)
	set("10") // the least that it takes
	var full *profiler.Create
	for range 30 {
		cfg := s.Config(mariadbtest.Plain)
		cfg.Logger = &mysql.NopLogger{}
		var sink kept
		c := must(Connector(&profiler.Profiler{Sinks: []profiler.Sink{&sink}}, cfg))
		conn, err := c.Connect(t.Context())
		if err == nil {
			defer conn.Close()
			continue
		}
		full = sink.creates[0]
		break
	}
	if full == nil {
		t.Fatal("30 connections were let in")
	}
	// MariaDB greets first and refuses the login.
	if full.Class != profiler.ClassRejected || full.Failed != profiler.Auth || full.Wire.ServerError.String() != "1040" ||
		!strings.Contains(full.Advice(), "no connection left") {
		t.Errorf("%v: class %q in %v, server's error %q, advice %q", full.Err, full.Class, full.Failed, full.Wire.ServerError, full.Advice())
	}
}

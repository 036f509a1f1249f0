package mongotest

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/connprof/connprof/internal/certtest"
)

func numbers(n int) (ids []int) {
	for i := range n {
		ids = append(ids, i)
	}
	return ids
}

// open counts the open connections of a role.
func open(logs []ConnLog, role Role) (n int) {
	for _, c := range logs {
		if c.Open() && c.Role() == role {
			n++
		}
	}
	return n
}

// dials counts the connections of a role, open or closed.
func dials(s *Server, role Role) (n int) {
	for _, c := range s.Conns() {
		if c.Role() == role {
			n++
		}
	}
	return n
}

// tlsConfigs are of a server and of a client that trusts it.
func tlsConfigs() (server, client *tls.Config) {
	ca := certtest.NewCA(certtest.ECDSA)
	return &tls.Config{Certificates: []tls.Certificate{ca.Issue(certtest.Leaf{}).TLS}}, &tls.Config{RootCAs: ca.Pool()}
}

func TestDriverFindsWhatItInserted(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{})
		c := d.connect(t, s.URI(""), nil)
		if err := c.insert(numbers(25)...); err != nil {
			t.Fatal(err)
		}
		if err := c.findOne(24); err != nil {
			t.Error(err)
		}
		if err := c.findOne(25); err == nil {
			t.Error("a document that nobody inserted was found")
		}
		if n, err := c.findAll(10); n != 25 || err != nil {
			t.Errorf("find in batches of 10: %d documents, %v", n, err)
		}
		if n, err := c.count(); n != 25 || err != nil {
			t.Errorf("count: %d, %v", n, err)
		}
		if err := c.insert(7); c.code(err) != CodeDuplicateKey {
			t.Errorf("a second document with _id 7: %v", err)
		}
		if err := c.abandon(10); err != nil {
			t.Error(err)
		}
		var names []string
		for _, cmd := range c.commands() {
			names = append(names, cmd.name)
		}
		want := []string{"insert", "find", "find", "find", "getMore", "getMore", "aggregate", "insert", "find", "killCursors"}
		if !slices.Equal(names, want) {
			t.Errorf("the driver reports %v, want %v", names, want)
		}
	})
}

func TestCommandsAreLoggedOnTheConnectionTheDriverNames(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{})
		c := d.connect(t, s.URI(""), nil)
		for range 3 {
			if err := c.ping(); err != nil {
				t.Fatal(err)
			}
		}
		for _, cmd := range c.commands() {
			if log, ok := s.Conn(cmd.conn); !ok || log.Role() != RolePool || log.Count("ping") != 3 {
				t.Errorf("command %+v, but connection %+v", cmd, log)
			}
		}
		// Without streaming there is one monitor, and its hello was the first.
		logs := s.Conns()
		if len(logs) != 2 || logs[0].Role() != RoleMonitor || logs[1].Role() != RolePool {
			t.Fatalf("connections %+v, want a monitor and one of the pool", logs)
		}
		hello := logs[1].Commands[0]
		if hello.Name != "hello" || !hello.Legacy || hello.Replied.Before(hello.At) || hello.At.Before(logs[1].Accepted) {
			t.Errorf("first command %+v, want an OP_QUERY isMaster in order of time", hello)
		}
		if _, port, err := net.SplitHostPort(logs[1].Remote); err != nil || port == "0" {
			t.Errorf("remote address %q: %v", logs[1].Remote, err)
		}
	})
}

func TestTLSAndResumption(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		server, clientConfig := tlsConfigs()
		clientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		s := Start(t, Options{TLS: server})
		if err := d.connect(t, s.URI(""), clientConfig).ping(); err != nil {
			t.Fatal(err)
		}
		logs := s.Conns()
		for i, c := range logs {
			if c.TLS == nil || c.TLS.Version != tls.VersionTLS13 || c.TLS.DidResume != (i == 1) {
				t.Errorf("connection %d: TLS %+v, want 1.3, resumed by the second only", c.ID, c.TLS)
			}
		}
	})
}

func TestTLSHandshakeFailureIsLogged(t *testing.T) {
	server, _ := tlsConfigs()
	s := Start(t, Options{TLS: server})
	conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{})
	if err == nil {
		conn.Close()
		t.Fatal("an unknown root was trusted")
	}
	s.WaitFor(t, func(logs []ConnLog) bool { return len(logs) == 1 && !logs[0].Open() })
	if log := s.Conns()[0]; log.Err == nil || log.TLS != nil || log.Role() != RoleUnknown {
		t.Errorf("log %+v, want an error and no TLS", log)
	}
}

func TestIPv6AndUnixSocket(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		dir, err := os.MkdirTemp("", "mongotest") // t.TempDir has capitals, which driver 1.17 does not keep
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		addresses := []string{filepath.Join(dir, "m.sock")}
		if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
			l.Close()
			addresses = append(addresses, "[::1]:0")
		}
		for _, address := range addresses {
			s := Start(t, Options{Address: address})
			if err := d.connect(t, s.URI(""), nil).ping(); err != nil {
				t.Errorf("%s: %v", s.URI(""), err)
			}
		}
	})
}

func TestKilledPoolRecovers(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{})
		c := d.connect(t, s.URI(""), nil)
		if err := c.insert(1); err != nil {
			t.Fatal(err)
		}
		if n := s.KillPool(); n != 1 {
			t.Errorf("%d connections killed, want 1", n)
		}
		if err := c.findOne(1); err != nil {
			t.Error(err)
		}
		var pool []ConnLog
		for _, log := range s.Conns() {
			if log.Role() == RolePool {
				pool = append(pool, log)
			}
		}
		if len(pool) != 2 || pool[0].Open() || !pool[1].Open() {
			t.Errorf("connections of the pool %+v, want a closed and an open one", pool)
		}
		if n := s.Kill(nil); n != 2 {
			t.Errorf("%d connections killed, want the monitor's and the pool's", n)
		}
	})
}

func TestStopEndsConnectionsThatHangOrWait(t *testing.T) {
	s := Start(t, Options{Script: func(c Call) Step { return Step{Hang: c.N == 1, Delay: 1 << 40} }})
	for range 3 {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	s.WaitFor(t, func(logs []ConnLog) bool { return len(logs) == 3 })
	s.Stop()
	s.Stop()
	for _, c := range s.Conns() {
		if c.Open() {
			t.Errorf("connection %d is open after Stop", c.ID)
		}
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("a connection was accepted after Stop")
	}
}

func TestGarbageClosesOnlyItsConnection(t *testing.T) {
	s := Start(t, Options{})
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, conn)
	s.WaitFor(t, func(logs []ConnLog) bool { return !logs[0].Open() })
	if s.Conns()[0].Err == nil {
		t.Error("no error was logged")
	}
	if err := connectV2(t, s.URI(""), nil).ping(); err != nil {
		t.Error(err)
	}
}

package mongotest

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"
)

// ConnLog is what the server saw of one connection.
type ConnLog struct {
	ID       int64     // the connectionId in this connection's hello replies, from 1 in the order of accepting
	Remote   string    // the client's address, so its local port; "" or "@" for a unix socket
	Accepted time.Time // when the server accepted it
	Closed   time.Time // when it was closed by either side; zero while it is open

	TLS *tls.ConnectionState // nil without TLS, before the end of the handshake, and if that failed
	Err error                // why the TLS handshake failed or what broke the wire protocol; nil for a plain close

	Speculative bool      // the login rode in hello
	User        string    // who logged in; "" if nobody did
	Commands    []Command // in the order they came
}

// Command is one command that came in. All hellos are named "hello".
type Command struct {
	Name    string
	At      time.Time // when the whole message was read
	Replied time.Time // when the write of its (first) reply began; zero if there was none
	Awaited bool      // an awaitable hello
	Legacy  bool      // it came as OP_QUERY
}

// Role is what a connection is for, as far as a server can tell.
type Role string

const (
	// RoleUnknown is a connection that sent no command, or none yet.
	RoleUnknown Role = "unknown"
	// RoleMonitor is a connection that awaited a hello, or sent nothing but hellos without a login: heartbeat and RTT monitors,
	// but also a connection of a pool, without users, that has not been used yet.
	RoleMonitor Role = "monitor"
	// RolePool is every other connection.
	RolePool Role = "pool"
)

// Role is the connection's role as of now.
func (c ConnLog) Role() Role {
	if len(c.Commands) == 0 {
		return RoleUnknown
	}
	if c.Speculative || c.User != "" {
		return RolePool
	}
	for _, cmd := range c.Commands {
		if cmd.Name != "hello" {
			return RolePool
		}
	}
	return RoleMonitor
}

// Open reports whether the connection was open when the log was taken.
func (c ConnLog) Open() bool { return c.Closed.IsZero() }

// Count is how often the connection sent the command.
func (c ConnLog) Count(command string) int {
	n := 0
	for _, cmd := range c.Commands {
		if cmd.Name == command {
			n++
		}
	}
	return n
}

// Conns is a copy of the log of all connections so far, in the order of their ids. The log grows for as long as the server runs.
func (s *Server) Conns() []ConnLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := make([]ConnLog, len(s.conns))
	for i, c := range s.conns {
		logs[i] = c.logLocked()
	}
	return logs
}

// Conn is the log of one connection, and false if there was none with this connectionId.
func (s *Server) Conn(id int64) (ConnLog, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id < 1 || id > int64(len(s.conns)) {
		return ConnLog{}, false
	}
	return s.conns[id-1].logLocked(), true
}

// WaitFor waits until cond is true of the log, for what clients do in the background: dial for an RTT monitor, close a connection.
// It fails the test at once (Fatal, so only on the test's goroutine) if that takes more than five seconds. Cond is called after each
// change of the log.
func (s *Server) WaitFor(tb testing.TB, cond func([]ConnLog) bool) {
	tb.Helper()
	timeout := time.NewTimer(5 * time.Second)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		if s.waiting == nil {
			s.waiting = make(chan struct{})
		}
		changed := s.waiting
		s.mu.Unlock()
		logs := s.Conns()
		if cond(logs) {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			tb.Fatalf("mongotest: waited in vain; the log is %+v", logs)
		}
	}
}

// notifyLocked wakes WaitFor.
func (s *Server) notifyLocked() {
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
}

// edit changes the connection's log.
func (c *conn) edit(change func(log *ConnLog)) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	change(&c.log)
	c.srv.notifyLocked()
}

func (c *conn) logLocked() ConnLog {
	log := c.log
	log.Commands = slices.Clone(log.Commands)
	return log
}

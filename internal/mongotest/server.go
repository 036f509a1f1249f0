package mongotest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Server is a running server. All its methods may be called concurrently.
type Server struct {
	opts     Options
	listener net.Listener
	scram    *scram.Server // nil without users
	store    store

	ctx    context.Context // done when Stop is called
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accept loop and two goroutines a connection

	// mu guards what follows, and the log and counters of each conn.
	mu      sync.Mutex
	script  Script
	seen    map[string]int // calls by command, for Call.N
	conns   []*conn        // all that ever were; the id of conns[i] is i+1
	stopped bool
	waiting chan struct{} // if not nil: closed, and set to nil, at the next change of the log

	processID bson.ObjectID
	replica   *ReplicaSet
	counter   int64         // topologyVersion.counter
	changed   chan struct{} // closed when counter changes, and made anew
}

// Start starts a server and has tb stop it when the test ends. It fails the test if the address can't be listened on or a password
// can't be prepared. A client made afterwards, and disconnected by a later tb.Cleanup, is disconnected before the server stops.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	s := &Server{opts: o, script: o.Script, replica: o.ReplicaSet, seen: map[string]int{}, processID: bson.NewObjectID(),
		counter: 1, changed: make(chan struct{})}
	var err error
	if s.scram, err = newSCRAM(o); err != nil {
		tb.Fatalf("mongotest: users: %v", err)
	}
	network, address := "tcp", o.Address
	switch {
	case address == "":
		address = "127.0.0.1:0"
	case strings.HasPrefix(address, "/"):
		network = "unix"
	}
	if s.listener, err = net.Listen(network, address); err != nil {
		tb.Fatalf("mongotest: listen: %v", err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	tb.Cleanup(s.Stop)
	return s
}

// Stop closes the listener and all connections, the ones in a delay or a hang included, and waits for all goroutines. It may be
// called more than once.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	s.listener.Close()
	s.Kill(nil)
	s.wg.Wait()
}

// Kill closes all open connections that filter accepts, or all for a nil filter, without a word to the client, and returns how many
// they were. New connections are accepted as before.
func (s *Server) Kill(filter func(ConnLog) bool) int {
	s.mu.Lock()
	var victims []*conn
	for _, c := range s.conns {
		if log := c.logLocked(); log.Open() && (filter == nil || filter(log)) {
			victims = append(victims, c)
		}
	}
	s.mu.Unlock()
	for _, c := range victims {
		c.close()
	}
	return len(victims)
}

// KillPool is Kill for the connections that are known to belong to a pool: RolePool.
func (s *Server) KillPool() int { return s.Kill(func(c ConnLog) bool { return c.Role() == RolePool }) }

func (s *Server) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return // closed by Stop
		}
		if c := s.add(raw); c != nil {
			s.wg.Go(c.serve)
		}
	}
}

// add enters a new connection into the log. It closes the connection and returns nil if the server has stopped meanwhile.
func (s *Server) add(raw net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		raw.Close()
		return nil
	}
	c := newConn(s, raw, int64(len(s.conns)+1))
	s.conns = append(s.conns, c)
	s.notifyLocked()
	return c
}

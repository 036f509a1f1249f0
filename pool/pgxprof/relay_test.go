package pgxprof

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/postgrestest"
)

// relay passes bytes between clients and the server, and reads the server's messages in the clear: an oracle for round trips that knows
// PostgreSQL's protocol, which what it checks does not.
type relay struct {
	addr   string
	turns  atomic.Int64 // ReadyForQuery: what a client waits for before it goes on (protocol §55.2)
	delay  atomic.Int64 // nanoseconds that each of the server's answers takes longer
	accept atomic.Int64 // nanoseconds before a client's connection is led on

	server string
	secure *tls.Config // encrypts towards clients
	direct bool        // without their asking for it
	mu     sync.Mutex
	conns  []net.Conn // mu: the clients' and the server's
}

func newRelay(t *testing.T, server string) *relay {
	r := &relay{server: server}
	r.addr = script(t, r.client)
	return r
}

// newSecureRelay is one that speaks TLS with its clients and none with the server.
func newSecureRelay(t *testing.T, server string, cfg *tls.Config, direct bool) *relay {
	r := &relay{server: server, secure: cfg, direct: direct}
	r.addr = script(t, r.client)
	return r
}

func (r *relay) client(nc net.Conn) {
	time.Sleep(time.Duration(r.accept.Load()))
	raw := nc
	if r.secure != nil {
		if !r.direct {
			head := make([]byte, len(sslRequest))
			if _, err := io.ReadFull(nc, head); err != nil {
				return
			}
			nc.Write([]byte("S"))
		}
		tc := tls.Server(nc, r.secure)
		if tc.Handshake() != nil {
			return
		}
		nc = tc
	}
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns = append(r.conns, raw, server)
	r.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		r.answers(nc, server)
		raw.Close()
	})
	io.Copy(server, nc)
	server.Close()
	back.Wait()
}

// answers passes the server's messages on, one by one.
func (r *relay) answers(to io.Writer, from io.Reader) {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		b := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
		copy(b, head)
		if _, err := io.ReadFull(from, b[len(head):]); err != nil {
			return
		}
		if b[0] == 'Z' {
			time.Sleep(time.Duration(r.delay.Load()))
			r.turns.Add(1)
		}
		if _, err := to.Write(b); err != nil {
			return
		}
	}
}

// cut closes all connections, on both sides.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, nc := range r.conns {
		nc.Close()
	}
	r.conns = nil
}

// serverTLS is for a relay that clients trust as they trust s.
func serverTLS(s *postgrestest.Server) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{s.CA.Issue(certtest.Leaf{}).TLS}}
}

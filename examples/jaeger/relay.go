package main

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A relay stands between the service and one server, as a network does: what the server sends arrives a while later. Its delay is what
// spans are checked against, for an answer can't be there sooner. The connect is loopback's own and takes none of it.
type relay struct {
	listener net.Listener
	server   string // host:port
	delay    time.Duration
	serving  sync.WaitGroup

	first atomic.Int64 // how long the next connection has to wait to be served, once

	mu     sync.Mutex
	closed bool                  // mu
	conns  map[*net.TCPConn]bool // mu: the clients' ends
}

// newRelay listens on a free loopback port and leads to server.
func newRelay(server string, delay time.Duration) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r := &relay{listener: l, server: server, delay: delay, conns: make(map[*net.TCPConn]bool)}
	r.serving.Go(r.accept)
	return r, nil
}

func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		client := c.(*net.TCPConn)
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			client.Close()
			return
		}
		r.conns[client] = true
		r.mu.Unlock()
		r.serving.Go(func() {
			r.serve(client)
			r.mu.Lock()
			delete(r.conns, client)
			r.mu.Unlock()
		})
	}
}

func (r *relay) serve(client *net.TCPConn) {
	defer client.Close()
	time.Sleep(time.Duration(r.first.Swap(0)))
	c, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, client)
		server.CloseWrite()
	})
	both.Go(func() {
		later(client, server, r.delay)
		client.CloseWrite()
	})
	both.Wait()
}

// later copies like io.Copy, but everything arrives a delay after it came.
func later(to io.Writer, from io.Reader, delay time.Duration) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	chunks := make(chan chunk, 1024)
	var copying sync.WaitGroup
	copying.Go(func() {
		ok := true
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if ok {
				_, err := to.Write(c.data)
				ok = err == nil
			}
		}
	})
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(delay)}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	copying.Wait()
}

// kill ends all connections without the servers' or the clients' doing, as a firewall does with those that were idle too long.
func (r *relay) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// close ends the relay and its connections and waits for their end.
func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.kill()
	r.serving.Wait()
}

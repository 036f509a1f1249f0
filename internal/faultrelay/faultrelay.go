// Package faultrelay is a TCP relay for tests that breaks a connection at an exact byte and keeps what passed until the end, so that a
// test knows from the relay, and not from what it tests, how far a run had come.
package faultrelay

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is what a fault does.
type Kind int

const (
	None    Kind = iota
	Cut          // closes the connection, in both directions
	Reset        // breaks it, in both directions: what the other side has not read yet is lost to it
	Stall        // passes nothing more in either direction, and reads on
	Corrupt      // flips bits of the one byte
)

var kindNames = [...]string{"none", "cut", "reset", "stall", "corrupt"}

func (k Kind) String() string { return kindNames[k] }

// Fault is what happens when the byte at Offset of one direction is about to be passed on. The bytes before it have been.
type Fault struct {
	Kind     Kind
	ToServer bool // the direction whose bytes Offset counts
	Offset   int
}

func (f Fault) String() string {
	return fmt.Sprintf("%v at byte %d to the %s", f.Kind, f.Offset, map[bool]string{true: "server", false: "client"}[f.ToServer])
}

// Relay passes connections on to one server. It is safe for concurrent use.
type Relay struct {
	l      net.Listener
	server string
	wg     sync.WaitGroup

	lateness time.Duration
	closing  chan struct{}
	clients  atomic.Uint32

	mu   sync.Mutex
	runs map[string]chan *Run // mu: by the client's address, which both sides ask for; nil where the relay has left
}

// Listen starts a relay to the server's address. Close ends it.
func Listen(server string) (*Relay, error) { return listen(server, 10*time.Second) }

// listen is Listen with how late a client's dial may return after the relay's accept: on a busy machine, seconds.
func listen(server string, lateness time.Duration) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{l: l, server: server, lateness: lateness, closing: make(chan struct{}), runs: map[string]chan *Run{}}
	r.wg.Go(r.accept)
	return r, nil
}

// Close stops accepting and returns when every run is over, which needs the clients' connections to be closed.
func (r *Relay) Close() error {
	err := r.l.Close()
	close(r.closing)
	r.wg.Wait()
	return err
}

// DialFunc is a client's own dial function.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Dial connects a client to the relay and gives the connection its fault.
func (r *Relay) Dial(ctx context.Context, f Fault) (net.Conn, *Run, error) {
	d := net.Dialer{LocalAddr: r.source()}
	nc, err := d.DialContext(ctx, "tcp", r.l.Addr().String())
	if err != nil {
		return nc, nil, err
	}
	run := &Run{fault: f, done: make(chan struct{})}
	if ch := r.meet(nc.LocalAddr().String()); ch != nil {
		ch <- run
	} else {
		close(run.done)
	}
	return nc, run, nil
}

// source is a loopback address that no other client has: a port is free again as soon as its connection was reset, and a client of the same
// address would meet the run of the one before it.
func (r *Relay) source() net.Addr {
	if runtime.GOOS != "linux" { // where all of 127.0.0.0/8 is this machine
		return nil
	}
	n := r.clients.Add(1)
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+n>>16), byte(n>>8), byte(n))}
}

// meet is where a client's dial hands its run to the relay's accept. It returns nil to the one that comes after the other has left.
func (r *Relay) meet(client string) chan *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	ch, met := r.runs[client]
	if !met {
		ch = make(chan *Run, 1)
		r.runs[client] = ch
	} else if ch != nil {
		delete(r.runs, client)
	}
	return ch
}

// leave gives up waiting for a dial that its client gave up after the connect. It reports false if the client has come after all.
func (r *Relay) leave(client string, ch chan *Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[client] != ch {
		return false
	}
	r.runs[client] = nil
	return true
}

func (r *Relay) accept() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() {
			defer client.Close()
			address := client.RemoteAddr().String()
			ch := r.meet(address)
			select {
			case run := <-ch:
				run.relay(client, r.server)
				return
			case <-time.After(r.lateness):
			case <-r.closing: // every client's dial has returned
			}
			if !r.leave(address, ch) {
				(<-ch).relay(client, r.server)
			}
		})
	}
}

// Run is one connection through the relay. Its fields may be read once Wait has returned.
type Run struct {
	// FromClient is all that the client sent, FromServer all that was passed on to the client (a corrupted byte as it was before).
	FromClient, FromServer []byte
	// Broken says that the fault took place; ClientThen and ServerThen are the lengths of FromClient and FromServer at that moment.
	Broken                 bool
	ClientThen, ServerThen int

	fault Fault
	done  chan struct{}
	mu    sync.Mutex // guards the fields above while the run goes on
}

// Wait returns when both directions have ended: the client has closed its connection, and all it sent was read.
func (r *Run) Wait() { <-r.done }

func (r *Run) relay(client net.Conn, address string) {
	defer close(r.done)
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		r.pass(client, server, true)
		server.Close()
	})
	r.pass(server, client, false)
	if !r.stalled() {
		client.(*net.TCPConn).CloseWrite()
	}
	wg.Wait()
}

func (r *Run) stalled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Broken && r.fault.Kind == Stall
}

// pass copies one direction until it ends or breaks.
func (r *Run) pass(from, to net.Conn, toServer bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pass, cut := r.take(buf[:n], toServer)
			if len(pass) > 0 {
				to.Write(pass)
			}
			if cut {
				if r.fault.Kind == Reset {
					from.(*net.TCPConn).SetLinger(0)
					to.(*net.TCPConn).SetLinger(0)
				}
				from.Close()
				to.Close()
			}
		}
		if err != nil {
			return
		}
	}
}

// take logs what was read and says what of it to pass on.
func (r *Run) take(b []byte, toServer bool) (pass []byte, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := &r.FromServer
	if toServer {
		log = &r.FromClient
	}
	began := len(*log)
	if toServer {
		*log = append(*log, b...)
	}
	if r.Broken && r.fault.Kind != Corrupt {
		return nil, false
	}
	at := r.fault.Offset - began
	if r.fault.Kind == None || r.Broken || r.fault.ToServer != toServer || at >= len(b) {
		at = -1
	}
	switch {
	case at < 0:
		pass = b
	case r.fault.Kind == Corrupt:
		pass = append([]byte(nil), b...)
		pass[at] ^= 0x55
	default:
		pass = b[:at]
	}
	if !toServer {
		*log = append(*log, b[:len(pass)]...)
	}
	if at >= 0 {
		r.Broken = true
		r.ClientThen, r.ServerThen = len(r.FromClient), len(r.FromServer)
	}
	return pass, at >= 0 && (r.fault.Kind == Cut || r.fault.Kind == Reset)
}

var _ io.Closer = (*Relay)(nil)

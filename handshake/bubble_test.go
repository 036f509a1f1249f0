package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// A play is the making of one connection between a client that uses a Dialer like a driver does and a scripted server, over net.Pipe and
// real TLS. It runs in a testing/synctest bubble: time passes only in its sleeps, and exactly so.
type play struct {
	system  string // of the Endpoint, and whose preamble is spoken
	secure  bool
	refuse  bool // PostgreSQL's server answers N
	client  *tls.Config
	server  *tls.Config
	turns   int // exchanges after the preamble and TLS
	setup   int // Dialer.SetupTurns
	breakAt act
	how     ending
	late    time.Duration // how long the server that breaks takes to close; when a canceled caller gives up
}

// act is a part of a play, where it can be broken.
type act int

const (
	never act = iota
	resolving
	connecting
	greeting1
	handshake
	verifying
	turn1
	turn2
	turn3
)

// ending is how a broken play ends.
type ending int

const (
	closes   ending = iota // the server closes
	stalls                 // the server says nothing more until the caller's deadline
	canceled               // the same, and the caller cancels
)

// What each act takes. All are even, so that an Instant, which is odd, keeps their differences.
const (
	ms          = time.Millisecond
	hookTime    = 2 * ms
	lookUpTime  = 3 * ms
	lostTime    = 5 * ms
	connectTime = 7 * ms
	greetTime   = 11 * ms
	helloTime   = 13 * ms
	checkTime   = 17 * ms // the client's own verification of the certificate, within the handshake
	ocspTime    = 19 * ms // between the handshake and the first word
	answerTime  = 23 * ms // each turn
	computeTime = 29 * ms // before each turn but the first
	overTime    = 4 * ms  // before hand-over
	deadline    = 500 * ms
)

// serverEnd makes a pipe's server end buffered: a server's write does not wait for the client to read, as on a socket.
type serverEnd struct {
	net.Conn
	out  chan []byte
	once sync.Once
}

func newServerEnd(nc net.Conn) *serverEnd {
	s := &serverEnd{Conn: nc, out: make(chan []byte, 1024)}
	go func() {
		defer nc.Close()
		for b := range s.out {
			if _, err := nc.Write(b); err != nil {
				return
			}
		}
	}()
	return s
}

func (s *serverEnd) Write(b []byte) (int, error) {
	s.out <- append([]byte(nil), b...)
	return len(b), nil
}

func (s *serverEnd) Close() error { s.once.Do(func() { close(s.out) }); return nil }

var errBroken = errors.New("broken as the play says")

// breaks ends the server's part at a.
func (y *play) breaks(a act, nc net.Conn) error {
	if y.breakAt != a {
		return nil
	}
	if y.how == closes {
		time.Sleep(y.late)
	} else {
		io.Copy(io.Discard, nc)
	}
	return errBroken
}

// serve plays the server.
func (y *play) serve(raw net.Conn) {
	raw = newServerEnd(raw)
	nc := raw
	buf := make([]byte, 4096)
	say := func(a act, wait time.Duration, b []byte) bool {
		if y.breaks(a, nc) != nil {
			return false
		}
		time.Sleep(wait)
		nc.Write(b)
		return true
	}
	defer raw.Close()
	switch y.system {
	case "mysql":
		if !say(greeting1, greetTime, mysqlGreeting()) {
			return
		}
		if y.secure {
			io.ReadFull(nc, buf[:mysqlRequestSize])
		}
	case "postgresql":
		answer := map[bool]string{true: "N", false: "S"}[y.refuse]
		if y.secure || y.refuse {
			io.ReadFull(nc, buf[:postgresRequestSize])
			if !say(greeting1, greetTime, []byte(answer)) {
				return
			}
		}
	}
	if y.secure {
		cfg := y.server.Clone()
		cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			time.Sleep(helloTime)
			return nil, y.breaks(handshake, raw)
		}
		if y.breakAt == handshake { // no alert: the connection ends
			cfg.GetConfigForClient = nil
			nc.Read(buf)
			y.breaks(handshake, raw)
			return
		}
		tc := tls.Server(raw, cfg)
		if tc.Handshake() != nil {
			io.Copy(io.Discard, raw)
			return
		}
		nc = tc
	}
	for i := range y.turns {
		if _, err := io.ReadFull(nc, buf[:len(mysqlLogin(1))]); err != nil { // TLS 1.0 sends its first byte alone
			return
		}
		reply := mysqlOK(2)
		if y.system == "mysql" && i == 0 && y.turns-y.setup > 1 {
			reply = mysqlPacket(2, 0xfe, 'x', 0, 0, 0, 0, 0) // another plugin: one more exchange
		}
		if !say(turn1+act(i), answerTime, reply) {
			return
		}
	}
	io.Copy(io.Discard, nc)
}

// dial is the DialFunc: it looks a name up, loses one address, and connects to the second.
func (y *play) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	stop := func(a act) error {
		if y.breakAt != a {
			return nil
		}
		if y.how == closes {
			time.Sleep(y.late)
			return errBroken
		}
		<-ctx.Done()
		return ctx.Err()
	}
	tr := httptrace.ContextClientTrace(ctx)
	tr.DNSStart(httptrace.DNSStartInfo{Host: "db.example"})
	if err := stop(resolving); err != nil {
		tr.DNSDone(httptrace.DNSDoneInfo{Err: err})
		return nil, err
	}
	time.Sleep(lookUpTime)
	tr.DNSDone(httptrace.DNSDoneInfo{Addrs: make([]net.IPAddr, 2)})
	tr.ConnectStart("tcp", "192.0.2.1:1")
	time.Sleep(lostTime)
	tr.ConnectDone("tcp", "192.0.2.1:1", errors.New("unreachable"))
	tr.ConnectStart("pipe", "pipe")
	if err := stop(connecting); err != nil {
		tr.ConnectDone("pipe", "pipe", err)
		return nil, err
	}
	time.Sleep(connectTime)
	c, s := net.Pipe()
	tr.ConnectDone("pipe", "pipe", nil)
	go y.serve(s)
	return c, nil
}

// connect plays the driver, which follows its context as drivers do: by a deadline on the connection and by closing it.
func (y *play) connect(ctx context.Context, d *Dialer) (_ net.Conn, err error) {
	nc, err := d.DialContext(ctx, "tcp", "db.example:1")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			nc.Close()
		}
	}()
	if at, ok := ctx.Deadline(); ok {
		nc.SetDeadline(at)
	}
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	buf := make([]byte, 4096)
	switch y.system {
	case "mysql":
		if _, err := nc.Read(buf); err != nil {
			return nil, err
		}
		if y.secure {
			nc.Write(mysqlSSLRequest())
		}
	case "postgresql":
		if y.secure || y.refuse {
			nc.Write(postgresSSLRequest())
			if _, err := io.ReadFull(nc, buf[:1]); err != nil {
				return nil, err
			}
		}
	}
	rw := nc
	if y.secure {
		tc := tls.Client(nc, y.client)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		rw = tc
		if y.breakAt == verifying {
			if y.how == closes {
				time.Sleep(y.late)
				return nil, errBroken
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(ocspTime)
	}
	for i := range y.turns {
		if i > 0 {
			time.Sleep(computeTime)
		}
		if _, err := rw.Write(mysqlLogin(1)); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(rw, buf[:len(mysqlOK(2))]); err != nil {
			return nil, err
		}
	}
	time.Sleep(overTime)
	return nc, nil
}

// creates counts what a Sink is told.
type creates struct {
	mu sync.Mutex
	n  int
}

func (c *creates) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
}

// run plays it once, in a bubble, and returns the create, of which there must be one, and the driver's error.
func (y *play) run(t *testing.T) (*profiler.Create, error) {
	t.Helper()
	var sink creates
	d := &Dialer{
		Profiler: &profiler.Profiler{Sinks: []profiler.Sink{&sink}}, Endpoint: profiler.Endpoint{System: y.system},
		DialFunc: y.dial, Hook: true, SetupTurns: y.setup,
	}
	ctx, stop := context.WithTimeout(t.Context(), deadline)
	defer stop()
	if y.how == canceled && y.breakAt != never {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(t.Context())
		defer time.AfterFunc(y.late, cancel).Stop()
	}
	c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
	time.Sleep(hookTime)
	nc, err := y.connect(profiler.NewContext(ctx, c), d)
	if err != nil {
		c.Fail(ctx, err)
	} else {
		c.Ready(ctx)
		nc.Close()
	}
	c.Closed(profiler.CloseUnknown, nil)
	if sink.n != 1 {
		t.Errorf("%d creates were reported, want 1", sink.n)
	}
	cr := c.Create()
	if sum := phaseSum(cr); sum != cr.Duration {
		t.Errorf("phases sum to %v, create took %v", sum, cr.Duration)
	}
	return cr, err
}

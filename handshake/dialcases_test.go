package handshake

import (
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lib/pq"

	"github.com/connprof/connprof/profiler"
)

var (
	_ pq.Dialer        = (*Dialer)(nil)
	_ pq.DialerContext = (*Dialer)(nil)
)

func TestLibPQDialsThroughADialer(t *testing.T) {
	addr := serve(t, func(nc net.Conn) {
		io.ReadFull(nc, make([]byte, postgresRequestSize))
		nc.Write([]byte("N"))
		io.Copy(io.Discard, nc)
	})
	host, port, _ := net.SplitHostPort(addr)
	p := new(profiler.Profiler)
	c, err := pq.NewConnector("host=" + host + " port=" + port + " user=app dbname=app sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	c.Dialer(&Dialer{Profiler: p, Endpoint: profiler.Endpoint{System: "postgresql"}})
	db := sql.OpenDB(c)
	defer db.Close()
	if err := db.PingContext(t.Context()); !errors.Is(err, pq.ErrSSLNotSupported) {
		t.Errorf("error %v, want %v", err, pq.ErrSSLNotSupported)
	}
	e := p.Report().Endpoint(addr, profiler.RoleOther)
	if e == nil || e.Failed == 0 || e.FailedIn["greet"] != e.Failed {
		t.Errorf("report %+v, want failures in greet: no TLS is offered", e)
	}
}

func TestDialTimeoutLimitsTheDialAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &Dialer{Profiler: new(profiler.Profiler), DialFunc: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		start := time.Now()
		if _, err := slow.DialTimeout("tcp", "db:1", 100*ms); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*ms {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		fast := &Dialer{Profiler: new(profiler.Profiler), DialFunc: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, s := net.Pipe()
			go func() { time.Sleep(time.Second); s.Write([]byte("x")); s.Close() }()
			return c, nil
		}}
		nc, err := fast.DialTimeout("tcp", "db:1", 100*ms)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Read(make([]byte, 1)); err != nil {
			t.Errorf("the dial's limit ended a read: %v", err)
		}
		if nc, err = fast.Dial("tcp", "db:1"); err != nil {
			t.Fatal(err)
		}
		nc.Close()
		time.Sleep(2 * time.Second)
	})
}

// C28: a mesh or a proxy accepts at once and reaches the database later. The wait is greet, neither connect nor auth, and a limit on the
// dial has no part in it.
func TestAMiddleHopsOwnDialIsGreet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hop = 500 * ms
		d := &Dialer{
			Profiler: new(profiler.Profiler), Endpoint: profiler.Endpoint{System: "mysql"},
			DialFunc: func(context.Context, string, string) (net.Conn, error) {
				c, s := net.Pipe()
				go func() {
					defer s.Close()
					time.Sleep(hop)
					s.Write(mysqlGreeting())
					io.ReadFull(s, make([]byte, len(mysqlLogin(1))))
					s.Write(mysqlOK(2))
				}()
				return c, nil
			},
		}
		c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
		ctx, cancel := context.WithTimeout(profiler.NewContext(t.Context(), c), 100*ms)
		nc, err := d.DialContext(ctx, "tcp", "mesh:3306")
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		buf := make([]byte, 256)
		nc.Read(buf)
		nc.Write(mysqlLogin(1))
		nc.Read(buf)
		c.Ready(profiler.NoCaller)
		checkPhases(t, c.Create(), phases{profiler.Connect: 0, profiler.Greet: hop, profiler.Auth: 0})
	})
}

// C30: what the user's own code does before and inside the dial is named as such, and TLS inside the dialer is never "no TLS".
func TestTheUsersOwnCodeIsHookAndOpaqueConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := playShapes()[0].configs(tls.VersionTLS13)
		d := &Dialer{
			Profiler: new(profiler.Profiler), Hook: true,
			DialFunc: func(ctx context.Context, _, _ string) (net.Conn, error) {
				time.Sleep(100 * ms)
				c, s := net.Pipe()
				go func() {
					end := newServerEnd(s)
					defer end.Close()
					tc := tls.Server(end, server)
					tc.Handshake()
					io.Copy(io.Discard, tc)
				}()
				tc := tls.Client(c, client)
				return tc, tc.HandshakeContext(ctx)
			},
		}
		c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
		time.Sleep(200 * ms) // BeforeConnect
		nc, err := d.DialContext(profiler.NewContext(t.Context(), c), "tcp", "cloud:3306")
		if err != nil {
			t.Fatal(err)
		}
		c.Ready(profiler.NoCaller)
		cr := c.Create()
		checkPhases(t, cr, phases{profiler.Hook: 200 * ms, profiler.Connect: 100*ms + checkTime})
		if cr.Wire.Transport != profiler.TransportOpaque || !cr.TLS.Inside || cr.TLS.Seen || cr.TLS.Version != tls.VersionTLS13 {
			t.Errorf("transport %v, TLS %+v; want TLS 1.3 inside an opaque dialer", cr.Wire.Transport, cr.TLS)
		}
		nc.Close()
	})
}

func TestAUnixSocketIsNotResolved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Dialer{Profiler: new(profiler.Profiler)}
	c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
	nc, err := d.DialContext(profiler.NewContext(t.Context(), c), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c.Ready(profiler.NoCaller)
	cr := c.Create()
	if names(cr) != "connect" || cr.Wire.Transport != profiler.TransportUnix || cr.Wire.Peer != path || cr.TCP.Known {
		t.Errorf("phases %q, wire %+v, TCP %+v", names(cr), cr.Wire, cr.TCP)
	}
	if a := cr.Attempts; len(a) != 1 || a[0].Network != "unix" || a[0].Address != path {
		t.Errorf("attempts %+v", a)
	}
}

func TestTheKernelTellsItsOwnNumbers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("TCP_INFO is Linux's")
	}
	addr := serve(t, func(nc net.Conn) { io.Copy(nc, nc) })
	c, nc, err := dial(t, new(Dialer), addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.Write([]byte("ping"))
	io.ReadFull(nc, make([]byte, 4))
	c.Ready(profiler.NoCaller)
	cr := c.Create()
	connect := cr.Phases[profiler.Connect].Duration
	if i := cr.TCP; !i.Known || i.RTT <= 0 || i.RTT > connect || i.RTTVar <= 0 || i.RetransmitsConnect != 0 || i.Retransmits != 0 {
		t.Errorf("TCP %+v; want a round trip within the connect's %v and no retransmission", i, connect)
	}
}

// resolverOf answers A at once with 127.0.0.1 and AAAA never.
func resolverOf(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12 // RFC 1035 §4.1: a header, then the question
			for end < n && b[end] != 0 {
				end += int(b[end]) + 1
			}
			question := b[12 : end+5]
			const typeA = 1
			if binary.BigEndian.Uint16(question[len(question)-4:]) != typeA {
				continue
			}
			answer := join(b[:2], []byte{0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, question, []byte{0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1})
			pc.WriteTo(answer, from)
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	return pc.LocalAddr().String()
}

// impatient shortens the resolver's 5 s.
type impatient struct {
	*net.UDPConn
	limit time.Duration
}

func (c impatient) SetDeadline(time.Time) error {
	return c.UDPConn.SetDeadline(time.Now().Add(c.limit))
}

// C25: a resolver whose answer to AAAA is lost makes the look-up wait, though the address is there; connect takes no time.
func TestALostAnswerOfTheResolverIsResolve(t *testing.T) {
	const limit = 60 * ms
	name := resolverOf(t)
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	_, port, _ := net.SplitHostPort(addr)
	plain := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "udp", name)
		if err != nil {
			return nil, err
		}
		return impatient{nc.(*net.UDPConn), limit}, nil
	}}}
	c, _, err := dial(t, &Dialer{DialFunc: plain.DialContext}, net.JoinHostPort("db.example.test.", port))
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	cr := c.Create()
	resolve, connect := cr.Phases[profiler.Resolve].Duration, cr.Phases[profiler.Connect].Duration
	if names(cr) != "resolve connect" || resolve < limit || connect >= limit {
		t.Errorf("phases %q, resolve %v, connect %v; want the wait of at least %v in resolve", names(cr), resolve, connect, limit)
	}
	if r := cr.Resolved; !strings.HasPrefix(r.Host, "db.example.test") || r.Answers != 1 {
		t.Errorf("resolved %+v", r)
	}
}

func TestHalfCloseIsThereExactlyWhenTheInnerConnectionHasIt(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { // says when it has read all
		io.Copy(io.Discard, nc)
		nc.Write([]byte("all"))
	})
	_, nc, err := dial(t, new(Dialer), addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.Write([]byte("some"))
	if err := nc.(halfCloser).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(nc); string(got) != "all" || err != nil {
		t.Errorf("after CloseWrite: %q, %v", got, err)
	}
	hidden := func(_ context.Context, n, a string) (net.Conn, error) {
		nc, err := net.Dial(n, a)
		return struct{ net.Conn }{nc}, err
	}
	_, nc, err = dial(t, &Dialer{DialFunc: hidden}, addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := nc.(halfCloser); ok {
		t.Error("CloseWrite appears over a connection without it")
	}
}

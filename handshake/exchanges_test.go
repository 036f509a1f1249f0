package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// handedOver is a connection that was made and handed over, with its far end.
func handedOver(t *testing.T) (nc, far net.Conn) {
	t.Helper()
	inner, far := net.Pipe()
	t.Cleanup(func() { inner.Close(); far.Close() })
	p := new(profiler.Profiler)
	c := p.NewConn(profiler.Endpoint{System: "postgresql"}, profiler.RolePool)
	w := &watch{c: c, d: new(Dialer), nc: inner, dialed: profiler.Now(), lastIO: profiler.Now()}
	c.Watch(w)
	nc = newConn(inner, w)
	c.Ready(profiler.NoCaller)
	return nc, far
}

func TestExchangesAreWritesAndTheReadsThatAnswerThem(t *testing.T) {
	write := func(nc net.Conn) { nc.Write([]byte("question")) }
	for _, tt := range []struct {
		name  string
		run   func(nc net.Conn, answer func())
		turns int
		at    time.Duration // of the last answer; unknown if turns is 0
	}{
		{"one", func(nc net.Conn, answer func()) { write(nc); answer() }, 1, 5 * ms},
		{"an answer in several reads is one, and counts from its first", func(nc net.Conn, answer func()) {
			write(nc)
			answer()
			answer()
		}, 1, 5 * ms},
		{"a request in several writes is one", func(nc net.Conn, answer func()) { write(nc); write(nc); answer() }, 1, 5 * ms},
		{"two", func(nc net.Conn, answer func()) { write(nc); answer(); write(nc); answer() }, 2, 10 * ms},
		{"a notice before the request is no answer", func(nc net.Conn, answer func()) { answer(); write(nc); answer() }, 1, 10 * ms},
		{"no answer to the last", func(nc net.Conn, answer func()) { write(nc); answer(); write(nc) }, 0, 0},
		{"nothing", func(net.Conn, func()) {}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, far := handedOver(t)
				go io.Copy(io.Discard, far)
				x := ExchangesOf(tls.Client(over{nc}, nil))
				answer := func() {
					go func() {
						time.Sleep(5 * ms)
						far.Write([]byte("R"))
					}()
					nc.Read(make([]byte, 8))
				}
				write(nc) // before Begin, or after End: not counted
				for range 2 {
					start := profiler.Now()
					x.Begin()
					tt.run(nc, answer)
					turns, at := x.Answered()
					x.End()
					if turns != tt.turns || at.Known() != (tt.turns > 0) || at.Known() && at.Sub(start) != tt.at {
						t.Errorf("%d turns, the last answered after %v; want %d, %v", turns, at.Sub(start), tt.turns, tt.at)
					}
					write(nc)
					answer()
				}
			})
		})
	}
}

func TestWhoWroteLastIsKnownOnRequest(t *testing.T) {
	nc, far := handedOver(t)
	got := make(chan struct{})
	go func() {
		for b := make([]byte, 1); ; got <- struct{}{} {
			if _, err := far.Read(b); err != nil {
				return
			}
		}
	}()
	write := func() (by uint64) {
		done := make(chan struct{})
		go func() {
			by = goid.Get()
			nc.Write([]byte("q"))
			close(done)
		}()
		<-got
		<-done
		return by
	}
	x := ExchangesOf(nc)
	x.Begin()
	if write(); x.Writer() != 0 {
		t.Error("told unasked")
	}
	x.End()
	x.FollowWriter()
	if write(); x.Writer() != 0 {
		t.Error("told of a write before Begin")
	}
	x.Begin()
	a := write()
	if x.Writer() != a {
		t.Errorf("%d, want %d", x.Writer(), a)
	}
	b := write()
	if x.Forget(a); x.Writer() != b {
		t.Errorf("%d, want %d: it was not that goroutine that was to be forgotten", x.Writer(), b)
	}
	if x.Forget(b); x.Writer() != 0 {
		t.Error("not forgotten")
	}
	if a == b || a == 0 {
		t.Fatal("the test's own numbers")
	}
}

func TestExchangesThatAReadDuringAWriteMixesAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, far := handedOver(t)
		x := ExchangesOf(nc)
		x.Begin()
		go func() { // the server speaks before it has read all
			time.Sleep(ms)
			far.Write([]byte("R"))
			time.Sleep(ms)
			far.Read(make([]byte, 8))
			far.Write([]byte("R"))
		}()
		go nc.Read(make([]byte, 1))
		nc.Write([]byte("question"))
		nc.Read(make([]byte, 1))
		if turns, at := x.Answered(); turns != 1 || !at.Known() {
			t.Errorf("%d turns until %v, want one: all that was read answers the one write", turns, at)
		}
		go far.Read(make([]byte, 8))
		nc.Write([]byte("more"))
		go far.Write([]byte("R"))
		nc.Read(make([]byte, 1))
		if turns, at := x.Answered(); turns != 0 || at.Known() {
			t.Errorf("%d turns until %v, want neither known: the writes may have been one request", turns, at)
		}
	})
}

func TestExchangesWaitForTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{DialFunc: answering(t, 5*ms)}
		c, nc, err := dial(t, d, "db:5432")
		if err != nil {
			t.Fatal(err)
		}
		x := ExchangesOf(nc)
		x.Begin() // a hook of the program's runs a statement
		ask(t, nc, 2)
		if turns, _ := x.Answered(); turns != 0 {
			t.Errorf("%d turns before the hand-over", turns)
		}
		x.End()
		c.Ready(profiler.NoCaller)
		if cr := c.Create(); cr.Wire.Turns != 2 {
			t.Errorf("the create has %d turns, want all of them", cr.Wire.Turns)
		}
		x.Begin()
		ask(t, nc, 1)
		if turns, _ := x.Answered(); turns != 1 {
			t.Errorf("%d turns after it, want 1", turns)
		}
	})
	a, _ := net.Pipe()
	if x := ExchangesOf(a); x != nil {
		t.Error("exchanges of a connection that is not ours")
	}
	var none *Exchanges
	none.Begin()
	none.End()
	if turns, _ := none.Answered(); turns != 0 {
		t.Error("a nil one counts")
	}
}

// What a lost dial came to, as far as anyone told, is in its Attempt.
func TestALostDialHasItsOwnError(t *testing.T) {
	said := errors.New("the server said no")
	after := func(f func(nc net.Conn)) func(*testing.T, *Dialer) *profiler.Create {
		return func(t *testing.T, d *Dialer) *profiler.Create {
			c, nc, err := dial(t, d, "first:5432")
			if err != nil {
				t.Fatal(err)
			}
			f(nc)
			nc.Close()
			d.DialFunc = answering(t, 5*ms)
			if _, err := d.DialContext(profiler.NewContext(t.Context(), c), "tcp", "second:5432"); err != nil {
				t.Fatal(err)
			}
			c.Ready(profiler.NoCaller)
			return c.Create()
		}
	}
	once := func(answer string) *Dialer {
		return &Dialer{DialFunc: saying(t, answer)}
	}
	for _, tt := range []struct {
		name   string
		d      *Dialer
		run    func(*testing.T, *Dialer) *profiler.Create
		want   error
		reason string
	}{
		{"the driver told", once("R"), after(func(nc net.Conn) {
			ask(t, nc, 1)
			Refused(nc, said)
		}), said, ""},
		{"the wire told", once(""), after(func(nc net.Conn) {
			nc.Write(postgresStartup())
			nc.Read(make([]byte, 8))
		}), io.EOF, ""},
		{"the server has no TLS", once("N"), after(func(nc net.Conn) {
			nc.Write(postgresSSLRequest())
			nc.Read(make([]byte, 1))
		}), errNoTLS, "does not offer TLS"},
		{"the server refused the handshake", once("\x15\x03\x03\x00\x02\x02\x28"), after(func(nc net.Conn) {
			tls.Client(nc, &tls.Config{ServerName: "db"}).Handshake()
		}), tls.AlertError(40), "handshake failure"},
		{"nobody told", once("R"), after(func(net.Conn) {}), errSuperseded, "another dial"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cr := tt.run(t, tt.d)
			if len(cr.Attempts) != 2 || cr.Attempts[0].Err != tt.want || cr.Attempts[1].Err != nil || cr.Cause != nil ||
				!strings.Contains(cr.Attempts[0].Err.Error(), tt.reason) {
				t.Errorf("attempts %+v, cause %v; want %v", cr.Attempts, cr.Cause, tt.want)
			}
		})
	}
}

// saying is a server that reads once, answers and closes.
func saying(t *testing.T, answer string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			server.Read(make([]byte, 4096))
			if answer != "" {
				server.Write([]byte(answer))
			}
			server.Close()
		}()
		t.Cleanup(func() { server.Close() })
		return client, nil
	}
}

func TestAnOpaqueDialersFailureIsAnAttempt(t *testing.T) {
	down := errors.New("down")
	calls := 0
	d := &Dialer{}
	d.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if calls++; calls == 1 {
			return nil, down
		}
		return answering(t, 0)(ctx, network, addr)
	}
	p := new(profiler.Profiler)
	c := p.NewConn(profiler.Endpoint{System: "postgresql"}, profiler.RolePool)
	ctx := profiler.NewContext(t.Context(), c)
	if _, err := d.DialContext(ctx, "tcp", "first:5432"); err != down {
		t.Fatal(err)
	}
	if _, err := d.DialContext(ctx, "tcp", "second:5432"); err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	if a := c.Create().Attempts; len(a) != 2 || a[0].Address != "first:5432" || a[0].Err != down || a[0].Reached != profiler.Connect || a[1].Err != nil {
		t.Errorf("attempts %+v", a)
	}
}

func TestACloseDuringAFailedOperationIsReportedWithItsReason(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(nc, far net.Conn, x *Exchanges)
		says bool // how the operation ended
		want string
	}{
		{"a read fails", func(nc, far net.Conn, _ *Exchanges) { far.Close(); nc.Read(make([]byte, 1)) }, true, "error"},
		{"a write fails", func(nc, far net.Conn, _ *Exchanges) { far.Close(); nc.Write([]byte("q")) }, true, "error"},
		{"the driver says so", func(_, _ net.Conn, x *Exchanges) { x.Failed() }, true, "error"},
		{"nothing tells why", func(nc, far net.Conn, _ *Exchanges) { far.Close(); nc.Read(make([]byte, 1)) }, false, "unknown"},
		{"nothing fails", func(net.Conn, net.Conn, *Exchanges) {}, true, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc, far := handedOver(t)
			c := nc.(interface{ owner() *profiler.Conn }).owner()
			c.CloseWithWire()
			x := ExchangesOf(nc)
			x.Begin()
			tt.fail(nc, far, x)
			nc.Close()
			if tt.says {
				c.Closed(profiler.CloseError, io.EOF)
			}
			x.End()
			e := c.Profiler().Report().Endpoint("", profiler.RolePool)
			if e.Live != 0 || e.ClosedBy[tt.want] != 1 {
				t.Errorf("%d live, closed by %v; want one by %s", e.Live, e.ClosedBy, tt.want)
			}
		})
	}
}

func (c *conn) owner() *profiler.Conn { return c.of }

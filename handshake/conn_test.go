package handshake

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

// The two directions are used by two goroutines, a third closes, a fourth ends the create: at any moment, in any order.
func TestReadWriteCloseAndHandOverMayCoincide(t *testing.T) {
	rs := recordings(t)
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			flow := rs[i%len(rs)].flow
			at := func() time.Duration { return time.Duration(rng.IntN(40)) * ms }
			closeAt, endAt, fails := at(), at(), rng.IntN(2) == 0
			inner, far := net.Pipe()
			var sink creates
			d := rs[i%len(rs)].d()
			d.Profiler = &profiler.Profiler{Sinks: []profiler.Sink{&sink}}
			c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
			w := &watch{c: c, d: d, nc: inner, dialed: profiler.Now(), lastIO: profiler.Now()}
			c.Watch(w)
			nc := newConn(inner, w)
			var wg sync.WaitGroup
			var from, to tlsFlow
			for _, chunk := range flow {
				if chunk.out {
					from = append(from, chunk)
				} else {
					to = append(to, chunk)
				}
			}
			wg.Go(func() { io.Copy(io.Discard, far) })
			wg.Go(func() {
				for _, chunk := range to {
					far.Write(chunk.b)
				}
			})
			wg.Go(func() {
				for _, chunk := range from {
					time.Sleep(ms)
					nc.Write(chunk.b)
				}
			})
			wg.Go(func() {
				for buf := make([]byte, 300); ; time.Sleep(ms) {
					if _, err := nc.Read(buf); err != nil {
						return
					}
				}
			})
			wg.Go(func() { time.Sleep(closeAt); nc.Close() })
			wg.Go(func() {
				time.Sleep(endAt)
				if fails {
					c.Fail(profiler.NoCaller, errReplay)
				} else {
					c.Ready(profiler.NoCaller)
				}
			})
			wg.Wait()
			far.Close()
			c.Closed(profiler.CloseUnknown, nil)
			cr := c.Create()
			if sink.n != 1 || cr.Duration != endAt || phaseSum(cr) != endAt {
				t.Fatalf("run %d: %d creates, %v long, phases sum to %v; want one of %v", i, sink.n, cr.Duration, phaseSum(cr), endAt)
			}
		})
	}
}

// failingConn fails its n-th Write, counted from 1, with nothing written.
type failingConn struct {
	scriptedConn
	n int
}

var errWrite = errors.New("broken pipe")

func (c *failingConn) Write(b []byte) (int, error) {
	if c.n--; c.n == 0 {
		return 0, errWrite
	}
	return len(b), nil
}

// A phase begins with the entry of its first write, whether or not that succeeds.
func TestAWriteThatFailsBeginsItsPhase(t *testing.T) {
	flow := decodeRecording(t, "testdata/mariadb_tls13.flow").flow // SSLRequest, ClientHello, last flight, login
	for i, want := range []profiler.Phase{profiler.TLS, profiler.TLS, profiler.TLS, profiler.Auth} {
		inner := &failingConn{n: i + 1}
		d := scriptedDialer(inner)
		c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
		nc, err := d.DialContext(profiler.NewContext(t.Context(), c), "tcp", "db:1")
		if err != nil {
			t.Fatal(err)
		}
		for _, chunk := range flow {
			inner.next = chunk.b
			if chunk.out {
				_, err = nc.Write(chunk.b)
			} else {
				_, err = nc.Read(make([]byte, len(chunk.b)))
			}
			if err != nil {
				break
			}
		}
		c.Fail(profiler.NoCaller, err)
		if cr := c.Create(); err != errWrite || cr.Failed != want || cr.Cause != errWrite {
			t.Errorf("write %d: %v, failed in %v with %v, want %v", i+1, err, cr.Failed, cr.Cause, want)
		}
	}
}

// What the two sides have agreed on in the clear is due, though the ClientHello was not written yet.
func TestACancelBeforeTheClientHello(t *testing.T) {
	for _, tt := range []struct {
		name, system string
		flow         tlsFlow
		want         profiler.Phase
	}{
		{"MySQL after its request", "mysql", tlsFlow{in(mysqlGreeting()), out(mysqlSSLRequest())}, profiler.TLS},
		{"MySQL after the greeting", "mysql", tlsFlow{in(mysqlGreeting())}, profiler.Greet},
		{"PostgreSQL after the request", "postgresql", tlsFlow{out(postgresSSLRequest())}, profiler.Greet},
		{"PostgreSQL after yes", "postgresql", tlsFlow{out(postgresSSLRequest()), in([]byte("S"))}, profiler.TLS},
		{"PostgreSQL after no", "postgresql", tlsFlow{out(postgresSSLRequest()), in([]byte("N"))}, profiler.Greet},
		{"PostgreSQL after an error", "postgresql", tlsFlow{out(postgresSSLRequest()), in([]byte("E\x00\x00\x00\x20SFATAL"))}, profiler.Greet},
	} {
		got := checkAnyCreate(t, tt.flow, &Dialer{Endpoint: profiler.Endpoint{System: tt.system}}, errReplay, 1)
		if got.Failed != tt.want || !strings.Contains(strings.Join(got.Phases, " "), tt.want.String()) {
			t.Errorf("%s: failed in %v, phases %q; want %v", tt.name, got.Failed, got.Phases, tt.want)
		}
	}
}

// boastful is a tunnel whose Write counts its framing, against io.Writer's contract.
type boastful struct{ net.Conn }

func (c boastful) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n + 5, err
}

func TestAWriteThatCountsMoreThanItWasGivenIsPassedOn(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	c, nc, err := dial(t, &Dialer{DialFunc: func(_ context.Context, n, a string) (net.Conn, error) {
		nc, err := net.Dial(n, a)
		return boastful{nc}, err
	}}, addr)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := nc.Write([]byte("hello")); n != 10 || err != nil {
		t.Errorf("got %d, %v; want the inner connection's 10", n, err)
	}
	c.Ready(profiler.NoCaller)
	if out := c.Create().Wire.BytesOut; out != 5 {
		t.Errorf("%d bytes out, want 5", out)
	}
}

package wan_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/connprof/connprof/examples/internal/wan"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLink(t *testing.T, rtt time.Duration) *wan.Link {
	t.Helper()
	link, err := wan.New(rtt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return link
}

// serve runs handle for every connection to a new loopback server and returns its address through the link.
func serve(t *testing.T, link *wan.Link, handle func(*net.TCPConn)) (virtualAddr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
	virtualAddr, err = link.Forward(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return virtualAddr
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func dial(t *testing.T, link *wan.Link, addr string) net.Conn {
	t.Helper()
	c, err := link.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fastest returns the least of n measurements. Other programs on the machine can only add to it; a delay that belongs to
// the link, such as a late acknowledgement, is in every one.
func fastest(n int, measure func() time.Duration) time.Duration {
	least := measure()
	for range n - 1 {
		least = min(least, measure())
	}
	return least
}

// checkRoundTrips fails unless d is n round trips, no faster and at most 15 % slower.
func checkRoundTrips(t *testing.T, what string, d time.Duration, n int, rtt time.Duration) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector slows the stacks down")
	}
	want := time.Duration(n) * rtt
	t.Logf("%s: %v, %v more than %d × %v", what, d, d-want, n, rtt)
	if d < want || d > want*115/100 {
		t.Errorf("%s took %v, want %d round trips of %v", what, d, n, rtt)
	}
}

func TestConnectAndEchoTakeOneRoundTripEach(t *testing.T) {
	for _, rtt := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			link := newLink(t, rtt)
			addr := serve(t, link, echo)
			connect := fastest(15, func() time.Duration {
				start := time.Now()
				c := dial(t, link, addr)
				d := time.Since(start)
				_ = c.Close()
				return d
			})
			checkRoundTrips(t, "connect", connect, 1, rtt)

			c := dial(t, link, addr)
			answer := make([]byte, 1)
			trip := fastest(15, func() time.Duration {
				start := time.Now()
				if _, err := c.Write([]byte{'x'}); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Fatal(err)
				}
				return time.Since(start)
			})
			checkRoundTrips(t, "echo", trip, 1, rtt)
		})
	}
}

func TestSmallWritesInARowDoNotWaitForAcknowledgements(t *testing.T) {
	const rtt = 10 * time.Millisecond
	link := newLink(t, rtt)
	c := dial(t, link, serve(t, link, echo))
	answer := make([]byte, 5)
	checkRoundTrips(t, "five writes and their echo", fastest(15, func() time.Duration {
		start := time.Now()
		for range answer {
			if _, err := c.Write([]byte{'x'}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		return time.Since(start)
	}), 1, rtt)
}

func TestManyBytesArriveInOrder(t *testing.T) {
	link := newLink(t, time.Millisecond)
	c := dial(t, link, serve(t, link, echo))
	const size = 4 << 20
	go func() {
		block := make([]byte, 64<<10)
		for sent := 0; sent < size; sent += len(block) {
			for i := range block {
				block[i] = byte((sent + i) >> 4)
			}
			if _, err := c.Write(block); err != nil {
				return
			}
		}
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || len(got) != size {
		t.Fatalf("read %d bytes, %v; want %d", len(got), err, size)
	}
	for i, b := range got {
		if b != byte(i>>4) {
			t.Fatalf("byte %d is %d, want %d", i, b, byte(i>>4))
		}
	}
}

func TestConnectIsTracedAsNetDialerTracesIt(t *testing.T) {
	link := newLink(t, 0)
	addr := serve(t, link, echo)
	var calls []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		ConnectStart: func(network, addr string) { calls = append(calls, "start "+network+" "+addr) },
		ConnectDone: func(network, addr string, err error) {
			calls = append(calls, "done "+network+" "+addr)
			if err != nil {
				calls = append(calls, err.Error())
			}
		},
	})
	c, err := link.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if want := []string{"start tcp " + addr, "done tcp " + addr}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	calls = nil
	_, err = link.DialContext(ctx, "tcp", "10.77.0.2:1")
	want := []string{"start tcp 10.77.0.2:1", "done tcp 10.77.0.2:1", "dial tcp 10.77.0.2:1: connect: connection refused"}
	if err == nil || !slices.Equal(calls, want) {
		t.Errorf("refused: calls %q, %v, want %q", calls, err, want)
	}
}

func TestDialFails(t *testing.T) {
	link := newLink(t, 20*time.Millisecond)
	deadServer, err := link.Forward("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name, network, addr string
		want                error
	}{
		{"refused where nothing is forwarded", "tcp", "10.77.0.2:9", syscall.ECONNREFUSED},
		{"refused where the real server refuses", "tcp", deadServer, syscall.ECONNREFUSED},
		{"at once where there is no route", "tcp", "192.0.2.1:80", syscall.EHOSTUNREACH},
		{"for a name", "tcp", "localhost:80", &net.AddrError{}},
		{"for IPv6", "tcp", "[::1]:80", &net.AddrError{}},
		{"for another network", "udp", "10.77.0.2:9", net.UnknownNetworkError("udp")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := link.DialContext(t.Context(), test.network, test.addr)
			var op *net.OpError
			if !errors.As(err, &op) || op.Op != "dial" {
				t.Fatalf("error %v (%T), want a *net.OpError of dial", err, err)
			}
			if _, ok := test.want.(*net.AddrError); ok {
				if !errors.As(err, new(*net.AddrError)) {
					t.Errorf("error %v, want a *net.AddrError", err)
				}
			} else if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	link := newLink(t, time.Second)
	addr := serve(t, link, echo)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := link.DialContext(ctx, "tcp", addr)
	var op *net.OpError
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &op) || !op.Timeout() {
		t.Errorf("error %v, want a timeout of dial", err)
	}
	if d := time.Since(start); d > 500*time.Millisecond {
		t.Errorf("returned after %v", d)
	}
	if _, err := link.DialContext(ctx, "tcp", addr); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context already ended: %v", err)
	}
}

func TestCloseByThePeer(t *testing.T) {
	link := newLink(t, 2*time.Millisecond)
	read := func(c net.Conn) error { _, err := io.ReadFull(c, make([]byte, 2)); return err }

	t.Run("is the end of the stream", func(t *testing.T) {
		c := dial(t, link, serve(t, link, func(c *net.TCPConn) {}))
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read: %v, want EOF", err)
		}
	})
	t.Run("in one direction leaves the other open", func(t *testing.T) {
		c := dial(t, link, serve(t, link, func(c *net.TCPConn) {
			all, _ := io.ReadAll(c)
			_, _ = c.Write(all)
		}))
		_, _ = c.Write([]byte("hi"))
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
		if all, err := io.ReadAll(c); string(all) != "hi" || err != nil {
			t.Errorf("read %q, %v", all, err)
		}
	})
	t.Run("with a reset is a reset", func(t *testing.T) {
		c := dial(t, link, serve(t, link, func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		}))
		_, _ = c.Write([]byte("x"))
		if err := read(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v, want ECONNRESET", err)
		}
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("write after a reset succeeded")
		}
	})
	t.Run("with a reset at once is never a refusal", func(t *testing.T) {
		addr := serve(t, link, func(c *net.TCPConn) { _ = c.SetLinger(0) })
		for range 50 {
			// The reset may be back before the dial has looked at its connect, here as with net.Dialer.
			c, err := link.DialContext(t.Context(), "tcp", addr)
			if err == nil {
				err = read(c)
				_ = c.Close()
			}
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("dial or read: %v, want ECONNRESET", err)
			}
		}
	})
}

func TestCloseByTheClientReachesTheServer(t *testing.T) {
	link := newLink(t, 2*time.Millisecond)
	ended := make(chan error, 1)
	addr := serve(t, link, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("greeting"))
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	c := dial(t, link, addr)
	_, _ = io.ReadFull(c, make([]byte, len("greeting")))
	_ = c.Close()
	if err := <-ended; err != nil {
		t.Errorf("the server read %v, want the end of the stream", err)
	}
}

func TestOwnCloseAndDeadlinesFailAsNetConnsDo(t *testing.T) {
	link := newLink(t, 2*time.Millisecond)
	addr := serve(t, link, echo)
	t.Run("a read past its deadline", func(t *testing.T) {
		c := dial(t, link, addr)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("error %v, want os.ErrDeadlineExceeded", err)
		}
		_ = c.SetReadDeadline(time.Time{})
		_, _ = c.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Errorf("after the deadline was taken back: %v", err)
		}
	})
	t.Run("a deadline in the past ends a read in progress", func(t *testing.T) {
		c := dial(t, link, addr)
		time.AfterFunc(10*time.Millisecond, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v, want os.ErrDeadlineExceeded", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v, want os.ErrDeadlineExceeded", err)
		}
	})
	t.Run("Close ends a read in progress", func(t *testing.T) {
		c := dial(t, link, addr)
		time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("error %v, want net.ErrClosed", err)
		}
		for name, err := range map[string]error{"second Close": c.Close(), "SetDeadline": c.SetDeadline(time.Now())} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want net.ErrClosed", name, err)
			}
		}
		if c.LocalAddr() == nil || c.RemoteAddr().String() != addr {
			t.Errorf("addresses after Close: %v, %v", c.LocalAddr(), c.RemoteAddr())
		}
	})
}

func TestLinkCloseCutsWhatIsOpen(t *testing.T) {
	link := newLink(t, 40*time.Millisecond)
	addr := serve(t, link, echo)
	c := dial(t, link, addr)
	dialing := make(chan error, 1)
	go func() {
		_, err := link.DialContext(context.Background(), "tcp", addr)
		dialing <- err
	}()
	time.Sleep(30 * time.Millisecond) // its SYN has arrived, the answer has not
	start := time.Now()
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("Close took %v", d)
	}
	if err := <-dialing; err == nil {
		t.Error("a dial in progress succeeded")
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read after the link's Close succeeded")
	}
	if _, err := link.DialContext(t.Context(), "tcp", addr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after Close: %v, want net.ErrClosed", err)
	}
	if _, err := link.Forward("127.0.0.1:1"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Forward after Close: %v, want net.ErrClosed", err)
	}
	if err := link.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestForwardKeepsThePortWhereItCan(t *testing.T) {
	link := newLink(t, 0)
	tests := []struct{ real, want string }{
		{"127.0.0.1:3306", "10.77.0.2:3306"},
		{"127.0.0.1:3306", "10.77.0.2:3306"},
		{"localhost:3306", "10.77.0.2:3307"},
		{"127.0.0.1:65535", "10.77.0.2:65535"},
		{"localhost:65535", "10.77.0.2:1"},
		{"127.0.0.1", ""},
		{"127.0.0.1:0", ""},
		{"127.0.0.1:mysql", ""},
	}
	for _, test := range tests {
		got, err := link.Forward(test.real)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("Forward(%q) = %q, %v; want %q", test.real, got, err, test.want)
		}
	}
}

package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

// answering is a server at the other end of a pipe that answers each write after d, and returns the dial function.
func answering(t *testing.T, d time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			b := make([]byte, 64)
			for {
				if _, err := server.Read(b); err != nil {
					return
				}
				time.Sleep(d)
				server.Write([]byte("R"))
			}
		}()
		t.Cleanup(func() { server.Close() })
		return client, nil
	}
}

func ask(t *testing.T, nc net.Conn, n int) {
	t.Helper()
	for range n {
		if _, err := nc.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// over is what a program may put over a connection.
type over struct{ net.Conn }

func (o over) NetConn() net.Conn { return o.Conn }

func TestALoginEndsWhereTheDriverSaysSo(t *testing.T) {
	const ms = time.Millisecond
	bad := errors.New("bad statement")
	for _, tt := range []struct {
		name        string
		setupTurns  int // of the Dialer
		tell        bool
		asked       int // exchanges after the login
		err         error
		auth, setup time.Duration
		names       string
	}{
		{"nothing follows", 0, true, 0, nil, 10 * ms, 0, "connect auth"},
		{"statements follow", 0, true, 2, nil, 10 * ms, 12 * ms, "connect auth setup"},
		{"the program's own code may follow", -1, true, 0, nil, 10 * ms, 2 * ms, "connect auth setup"},
		{"a statement fails", 0, true, 1, bad, 10 * ms, 7 * ms, "connect auth setup"},
		{"it does not say so", 0, false, 0, nil, 10 * ms, 0, "connect auth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &Dialer{DialFunc: answering(t, 5*ms), SetupTurns: tt.setupTurns}
				c, nc, err := dial(t, d, "db:5432")
				if err != nil {
					t.Fatal(err)
				}
				ask(t, nc, 2)
				time.Sleep(ms) // the driver's own time until it says so: not the login's
				if tt.tell {
					Accepted(tls.Client(over{nc}, nil))
				}
				ask(t, nc, tt.asked)
				time.Sleep(ms)
				if tt.err != nil {
					c.Fail(profiler.NoCaller, tt.err)
				} else {
					c.Ready(profiler.NoCaller)
				}
				Accepted(nc) // too late
				nc.Close()
				cr := c.Create()
				if names(cr) != tt.names || phaseSum(cr) != cr.Duration {
					t.Errorf("phases %q, want %q; sum %v of %v", names(cr), tt.names, phaseSum(cr), cr.Duration)
				}
				auth, setup := cr.Phases[profiler.Auth].Duration, cr.Phases[profiler.Setup].Duration
				if auth != tt.auth || setup != tt.setup || cr.Wire.AuthWait != 10*ms || cr.Wire.AuthTurns != 2 {
					t.Errorf("auth %v, setup %v, wire %+v; want %v and %v", auth, setup, cr.Wire, tt.auth, tt.setup)
				}
				if want := map[bool]profiler.Phase{true: profiler.Setup}[tt.err != nil]; cr.Failed != want {
					t.Errorf("failed in %v, want %v", cr.Failed, want)
				}
			})
		})
	}
	Accepted(nil)
	Accepted(over{nil}) // of no Dialer
}

func TestACancelRequestIsMadeWhenItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(profiler.Profiler)
		client, server := net.Pipe()
		go func() {
			server.Read(make([]byte, 16))
			time.Sleep(time.Second)
			server.Close()
		}()
		d := &Dialer{Profiler: p, Role: profiler.RoleCancel,
			DialFunc: func(context.Context, string, string) (net.Conn, error) { return client, nil }}
		nc, err := d.DialContext(t.Context(), "tcp", "db:5432")
		if err != nil {
			t.Fatal(err)
		}
		nc.Write([]byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 1, 0, 0, 0, 2})
		if _, err := nc.Read(make([]byte, 16)); err != io.EOF {
			t.Fatal(err)
		}
		nc.Close()
		e := p.Report().Endpoint("db:5432", profiler.RoleCancel)
		if e == nil || e.Created != 1 || e.Failed != 0 || e.Closed != 1 || e.Live != 0 {
			t.Fatalf("report %+v", e)
		}
	})
}

func TestALookupIsResolvedAndCounted(t *testing.T) {
	const ms = time.Millisecond
	broken := errors.New("no such host")
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{Profiler: new(profiler.Profiler)}
		d.LookupFunc = func(_ context.Context, host string) ([]string, error) {
			time.Sleep(2 * ms)
			if host == "broken" {
				return nil, broken
			}
			return []string{"192.0.2.1", "192.0.2.2"}, nil
		}
		c := d.Profiler.NewConn(profiler.Endpoint{}, profiler.RolePool)
		ctx := profiler.NewContext(t.Context(), c)
		time.Sleep(ms)
		for _, host := range []string{"db", "192.0.2.1", "fe80::1%eth0", "db"} {
			if addrs, err := d.LookupHost(ctx, host); len(addrs) != 2 || err != nil {
				t.Fatal(addrs, err)
			}
		}
		if _, err := d.LookupHost(ctx, "broken"); err != broken {
			t.Errorf("got %v, want the look-up's own error", err)
		}
		if _, err := d.LookupHost(t.Context(), "db"); err != nil {
			t.Error(err)
		}
		c.Fail(ctx, broken)
		cr := c.Create()
		// The two addresses and the look-up for nobody are not in it.
		if got := cr.Phases[profiler.Resolve].Duration; got != 6*ms || cr.Resolved.Lookups != 3 || cr.Resolved.Answers != 4 {
			t.Errorf("resolve %v, %+v", got, cr.Resolved)
		}
		if cr.Failed != profiler.Resolve || cr.Cause != broken || phaseSum(cr) != cr.Duration {
			t.Errorf("failed in %v because of %v", cr.Failed, cr.Cause)
		}
	})
}

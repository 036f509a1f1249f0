package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/profiler"
)

// serve accepts connections on loopback and hands each to f, until the test ends.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f(nc)
			nc.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// dial makes a pool connection the way a pool does, and returns it with its Conn.
func dial(t *testing.T, d *Dialer, address string) (*profiler.Conn, net.Conn, error) {
	t.Helper()
	if d.Profiler == nil {
		d.Profiler = new(profiler.Profiler)
	}
	c := d.Profiler.NewConn(d.Endpoint, profiler.RolePool)
	ctx, cancel := context.WithTimeout(profiler.NewContext(t.Context(), c), 5*time.Second)
	defer cancel()
	nc, err := d.DialContext(ctx, "tcp", address)
	if nc != nil {
		t.Cleanup(func() { nc.Close() })
	}
	return c, nc, err
}

func phaseSum(cr *profiler.Create) (sum time.Duration) {
	for p := range profiler.Phases {
		sum += cr.Phases[p].Duration
	}
	return sum
}

func names(cr *profiler.Create) string {
	var s []string
	for p := range profiler.Phases {
		if cr.Phases[p].Present && p != profiler.Other {
			s = append(s, p.String())
		}
	}
	return strings.Join(s, " ")
}

func TestNameIsResolvedApartFromConnect(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	_, port, _ := net.SplitHostPort(addr)
	c, nc, err := dial(t, new(Dialer), net.JoinHostPort("localhost", port))
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	nc.Close()
	cr := c.Create()
	if got := names(cr); got != "resolve connect" && got != "resolve attempts connect" { // ::1 may be tried first
		t.Errorf("phases %q, want resolve and connect", got)
	}
	if cr.Resolved.Host != "localhost" || cr.Resolved.Lookups != 1 || cr.Resolved.Answers < 1 {
		t.Errorf("resolved %+v", cr.Resolved)
	}
	if cr.Duration != phaseSum(cr) {
		t.Errorf("phases sum to %v, create took %v", phaseSum(cr), cr.Duration)
	}
	if cr.Wire.Peer != addr || cr.Wire.Transport != profiler.TransportTCP {
		t.Errorf("wire %+v", cr.Wire)
	}
}

func TestAnAddressIsNotResolved(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	c, nc, err := dial(t, new(Dialer), addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	nc.Close()
	if got := names(c.Create()); got != "connect" {
		t.Errorf("phases %q, want connect", got)
	}
}

func TestDialFailuresAreChargedToTheirPhase(t *testing.T) {
	const refused = "127.0.0.1:1" // not a port that was free a moment ago: another test's server may have it by now
	broken := errors.New("tunnel: no route")
	for _, tt := range []struct {
		name, address string
		dial          func(context.Context, string, string) (net.Conn, error)
		want          profiler.Phase
		is            error
	}{
		{"nothing listens", refused, nil, profiler.Connect, syscall.ECONNREFUSED},
		{"no such name", "does-not-exist.invalid:1", (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: noResolver}}).DialContext, profiler.Resolve, nil},
		{"the user's own dialer fails", "db:1", func(context.Context, string, string) (net.Conn, error) { return nil, broken }, profiler.Connect, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, nc, err := dial(t, &Dialer{DialFunc: tt.dial}, tt.address)
			if err == nil || nc != nil {
				t.Fatalf("got %v, %v; want an error alone", nc, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v, want %v", err, tt.is)
			}
			c.Fail(profiler.NoCaller, err)
			cr := c.Create()
			if cr.Failed != tt.want || cr.Err != err || cr.Duration != phaseSum(cr) {
				t.Errorf("failed in %v with %v, sum %v of %v; want %v", cr.Failed, cr.Err, phaseSum(cr), cr.Duration, tt.want)
			}
		})
	}
}

func noResolver(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no resolver")
}

func TestALateLoserOfTheRaceIsIgnored(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	var late func()
	race := func(ctx context.Context, network, address string) (net.Conn, error) {
		tr := httptrace.ContextClientTrace(ctx)
		tr.ConnectStart("tcp", "[2001:db8::1]:3306")
		tr.ConnectStart("tcp", addr)
		nc, err := net.Dial(network, addr)
		tr.ConnectDone("tcp", addr, err)
		late = func() { tr.ConnectDone("tcp", "[2001:db8::1]:3306", errors.New("too late")) }
		return nc, err
	}
	c, nc, err := dial(t, &Dialer{DialFunc: race}, addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	nc.Close()
	before := *c.Create()
	late()
	cr := c.Create()
	if len(cr.Attempts) != 2 || cr.Attempts[0].Err != nil || cr.Attempts[0].Reached != profiler.Connect {
		t.Errorf("attempts %+v, want the loser as given up without an error", cr.Attempts)
	}
	if cr.Attempts[1].Reached != profiler.NoPhase || cr.Attempts[1].Address != addr {
		t.Errorf("winner %+v", cr.Attempts[1])
	}
	if cr.Duration != before.Duration || names(cr) != "attempts connect" {
		t.Errorf("phases %q", names(cr))
	}
}

func TestEventsOfOtherConnectionsLeaveADialerOpaque(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	proxy := func(ctx context.Context, network, address string) (net.Conn, error) {
		tr := httptrace.ContextClientTrace(ctx)
		tr.ConnectStart("tcp", "192.0.2.1:443")
		tr.ConnectDone("tcp", "192.0.2.1:443", nil)
		return net.Dial(network, addr)
	}
	c, nc, err := dial(t, &Dialer{DialFunc: proxy}, addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	nc.Close()
	cr := c.Create()
	if cr.Wire.Transport != profiler.TransportOpaque || names(cr) != "connect" || len(cr.Attempts) != 1 {
		t.Errorf("wire %+v, phases %q, attempts %+v", cr.Wire, names(cr), cr.Attempts)
	}
}

func TestTheUsersHTTPTraceKeepsFiring(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	p := new(profiler.Profiler)
	c := p.NewConn(profiler.Endpoint{}, profiler.RolePool)
	var fired int
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{ConnectDone: func(string, string, error) { fired++ }})
	nc, err := (&Dialer{Profiler: p}).DialContext(profiler.NewContext(ctx, c), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if fired != 1 {
		t.Errorf("the user's ConnectDone fired %d times, want 1", fired)
	}
}

func TestSyscallConnIsThereExactlyWhenTheInnerConnectionHasIt(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	for _, tt := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
		want bool
	}{
		{"a TCP connection", nil, true},
		{"a connection that hides it", func(_ context.Context, n, a string) (net.Conn, error) {
			nc, err := net.Dial(n, a)
			return struct{ net.Conn }{nc}, err
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, nc, err := dial(t, &Dialer{DialFunc: tt.dial}, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Ready(profiler.NoCaller)
			if _, ok := nc.(syscall.Conn); ok != tt.want {
				t.Errorf("syscall.Conn: %v, want %v", ok, tt.want)
			}
			c.Update(func(cr *profiler.Create) {
				if cr.Wire.NoDescriptor == tt.want {
					t.Errorf("NoDescriptor: %v", cr.Wire.NoDescriptor)
				}
			})
			inner, ok := nc.(interface{ NetConn() net.Conn })
			if !ok || inner.NetConn() == nil {
				t.Errorf("NetConn is missing")
			}
		})
	}
}

func TestATLSConnectionOfTheDialersIsReturnedAsItIs(t *testing.T) {
	ca := certtest.NewCA(certtest.ECDSA)
	cert := ca.Issue(certtest.Leaf{})
	addr := serve(t, func(nc net.Conn) {
		tc := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert.TLS}})
		tc.Handshake()
		io.Copy(io.Discard, tc)
	})
	secure := func(_ context.Context, n, a string) (net.Conn, error) {
		return tls.Dial(n, a, &tls.Config{RootCAs: ca.Pool()})
	}
	c, nc, err := dial(t, &Dialer{DialFunc: secure}, addr)
	if err != nil {
		t.Fatal(err)
	}
	c.Ready(profiler.NoCaller)
	if _, ok := nc.(*tls.Conn); !ok {
		t.Errorf("got %T, want *tls.Conn", nc)
	}
	if tl := c.Create().TLS; !tl.Inside || tl.Version != tls.VersionTLS13 || tl.Seen {
		t.Errorf("TLS %+v, want inside the dialer", tl)
	}
}

func TestWithoutAConnAndAProfilerTheDialIsBare(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	nc, err := new(Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, ok := nc.(*net.TCPConn); !ok {
		t.Errorf("got %T, want *net.TCPConn", nc)
	}
}

func TestADialThatNoPoolAskedForEndsWithItsFirstExchange(t *testing.T) {
	addr := serve(t, func(nc net.Conn) { io.Copy(nc, nc) })
	var p profiler.Profiler
	nc, err := (&Dialer{Profiler: &p}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	for range 2 {
		nc.Write([]byte("ping"))
		io.ReadFull(nc, b)
	}
	e := p.Report().Endpoint(addr, profiler.RoleOther)
	if e == nil || e.Created != 1 || e.Live != 1 || e.Measure(profiler.MeasureCreate, profiler.OK) != nil {
		t.Errorf("report %+v, want one connection made, without a total", e)
	}
	nc.Close()
	if e := p.Report().Endpoint(addr, profiler.RoleOther); e.Live != 0 || e.Closed != 1 {
		t.Errorf("after Close: %d live, %d closed", e.Live, e.Closed)
	}
}

func TestADialerThatReturnsNothingIsPassedOn(t *testing.T) {
	d := &Dialer{DialFunc: func(context.Context, string, string) (net.Conn, error) { return nil, nil }}
	if c, nc, err := dial(t, d, "db:1"); nc != nil || err != nil || c.Create() != nil {
		t.Errorf("got %v, %v, create %v; want what the dialer returned", nc, err, c.Create())
	}
}

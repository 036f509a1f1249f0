package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"

	"github.com/connprof/connprof/profiler"
)

var (
	errSuperseded = errors.New("handshake: given up for another dial")
	errNoTLS      = errors.New("handshake: the server does not offer TLS")
	errHandshake  = errors.New("handshake: the TLS handshake failed")
	errNoConn     = errors.New("handshake: dial: the dialer returned neither a connection nor an error")
)

// A dialTrace listens to one dial through the httptrace hooks that net.Dialer honours, and charges its time to resolve, attempts and
// connect once it is over. Hooks may fire concurrently and, for the losers of a race between address families (RFC 8305), long after
// the dial has returned: from then on they are ignored.
type dialTrace struct {
	c      *profiler.Conn
	custom bool // the user's own dialer
	asked  attempt

	mu       sync.Mutex
	over     bool             // mu
	dnsStart profiler.Instant // mu
	dnsDone  profiler.Instant // mu
	resolved profiler.Resolved
	attempts []attempt // mu
}

type attempt struct {
	network, address string
	start, done      profiler.Instant
	err              error
}

func newDialTrace(c *profiler.Conn, custom bool, asked attempt) *dialTrace {
	return &dialTrace{c: c, custom: custom, asked: asked}
}

// context adds the hooks to ctx; those that are already in it keep being called.
func (t *dialTrace) context(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart: func(i httptrace.DNSStartInfo) {
			t.record(func(now profiler.Instant) {
				if t.dnsStart == 0 {
					t.dnsStart = now
				}
				t.resolved.Host = i.Host
				t.resolved.Lookups++
			})
		},
		DNSDone: func(i httptrace.DNSDoneInfo) {
			t.record(func(now profiler.Instant) {
				t.dnsDone = now
				t.resolved.Answers += len(i.Addrs)
			})
		},
		ConnectStart: func(network, addr string) {
			t.record(func(now profiler.Instant) {
				if len(t.attempts) < profiler.MaxAttempts {
					t.attempts = append(t.attempts, attempt{network: network, address: addr, start: now})
				}
			})
		},
		ConnectDone: func(network, addr string, err error) {
			t.record(func(now profiler.Instant) {
				for i := len(t.attempts) - 1; i >= 0; i-- {
					if a := &t.attempts[i]; a.address == addr && a.network == network && a.done == 0 {
						a.done, a.err = now, err
						return
					}
				}
			})
		},
	})
}

func (t *dialTrace) record(f func(now profiler.Instant)) {
	now := profiler.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		f(now)
	}
}

// connected charges a dial that returned nc at ret.
func (t *dialTrace) connected(ret profiler.Instant, nc net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	wire := profiler.Wire{Transport: transportOf(nc), Peer: addrString(nc.RemoteAddr()), Local: addrString(nc.LocalAddr())}
	_, sys := nc.(syscall.Conn)
	wire.NoDescriptor = !sys
	winner := -1
	for i, a := range t.attempts {
		if a.done == 0 || a.err != nil {
			continue
		}
		if a.address == wire.Peer {
			winner = i
			break
		}
		if !t.custom {
			winner = i
		}
	}
	if winner < 0 {
		// A dialer that shows nothing, or whose events are about other connections (a proxy's, a token server's), is one block.
		if t.custom {
			wire.Transport = profiler.TransportOpaque
		}
		t.attempts = []attempt{{network: networkOf(nc), address: wire.Peer, start: ret, done: ret}}
		t.c.Cut(profiler.Connect, ret)
	} else {
		t.cutResolve()
		w := t.attempts[winner]
		if len(t.attempts) > 1 {
			t.c.Cut(profiler.Attempts, w.start)
		} else {
			t.c.Cut(profiler.Other, w.start)
		}
		t.c.Cut(profiler.Connect, ret)
	}
	t.report(ret, winner)
	inside := insideTLS(nc)
	t.c.Update(func(cr *profiler.Create) {
		cr.Wire = wire
		cr.TLS = inside
	})
}

// failed charges a dial that failed at ret.
func (t *dialTrace) failed(ret profiler.Instant, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	phase := profiler.Connect
	switch {
	case len(t.attempts) > 0:
		t.cutResolve()
		last := t.attempts[len(t.attempts)-1]
		if len(t.attempts) > 1 {
			t.c.Cut(profiler.Attempts, last.start)
		} else {
			t.c.Cut(profiler.Other, last.start)
		}
	case t.dnsStart != 0:
		t.c.Cut(profiler.Other, t.dnsStart)
		phase = profiler.Resolve
	default: // a dialer that shows nothing
		t.asked.done, t.asked.err = ret, err
		t.attempts = []attempt{t.asked}
	}
	t.c.Cut(phase, ret)
	t.report(ret, -1)
	t.c.Update(func(cr *profiler.Create) {
		cr.Failed = phase
		cr.Cause = err
	})
}

func (t *dialTrace) cutResolve() {
	if t.dnsStart == 0 {
		return
	}
	t.c.Cut(profiler.Other, t.dnsStart)
	done := t.dnsDone
	if done == 0 && len(t.attempts) > 0 {
		done = t.attempts[0].start
	}
	t.c.Cut(profiler.Resolve, done)
}

// report writes down the look-up and the attempts; winner is -1 for none.
func (t *dialTrace) report(ret profiler.Instant, winner int) {
	resolved := t.resolved
	t.c.Update(func(cr *profiler.Create) {
		if resolved.Lookups > 0 {
			cr.Resolved.Host = resolved.Host
			cr.Resolved.Lookups += resolved.Lookups
			cr.Resolved.Answers += resolved.Answers
		}
	})
	for i, a := range t.attempts {
		done, reached := a.done, profiler.Connect
		if done == 0 { // still under way: given up for the winner
			done = ret
		}
		if i == winner || winner < 0 && a.err == nil && a.done != 0 {
			reached = profiler.NoPhase
		}
		t.c.Attempt(profiler.Attempt{
			Network: a.network, Address: a.address, Begin: t.c.Since(a.start), Duration: done.Sub(a.start), Reached: reached, Err: a.err,
		})
	}
}

// insideTLS is what a dialer that makes TLS itself shows of it.
func insideTLS(nc net.Conn) profiler.TLSInfo {
	s, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return profiler.TLSInfo{}
	}
	i := profiler.TLSInfo{Inside: true}
	if cs := s.ConnectionState(); cs.HandshakeComplete {
		i.Version, i.Cipher, i.Group, i.Resumed, i.HelloRetry = cs.Version, cs.CipherSuite, cs.CurveID, cs.DidResume, cs.HelloRetryRequest
	}
	return i
}

func transportOf(nc net.Conn) profiler.Transport {
	switch n := networkOf(nc); {
	case strings.HasPrefix(n, "tcp"):
		return profiler.TransportTCP
	case strings.HasPrefix(n, "unix"):
		return profiler.TransportUnix
	}
	return profiler.TransportUnknown
}

func networkOf(nc net.Conn) string {
	if a := nc.RemoteAddr(); a != nil {
		return a.Network()
	}
	return ""
}

func addrString(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

package handshake

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"

	"github.com/connprof/connprof/profiler"
)

// Dialer dials like net.Dialer and watches what it dialed, until the connection is handed over. Its DialContext fits the dial hooks of
// go-sql-driver/mysql and the MongoDB drivers. Its fields must not change once it is in use; it may be used concurrently.
//
// Whoever makes the connection puts its profiler.Conn into the dial's context (profiler.NewContext), and ends the create. For a dial
// without one the Dialer makes a Conn of its own, of Role, and ends its create when the first exchange is over; that of a cancel request
// before the request, which has no answer.
type Dialer struct {
	// Profiler takes the creates of dials that no one else made a Conn for. A nil one watches no such dial.
	Profiler *profiler.Profiler
	// Endpoint counts those dials. An empty Address means the address dialed.
	Endpoint profiler.Endpoint
	// Role is what those dials are for; the zero Role means profiler.RoleOther.
	Role profiler.Role
	// DialFunc is what really dials; nil means a zero net.Dialer. It is timed as one opaque block unless it reports what it does through
	// net/http/httptrace, as net.Dialer does.
	DialFunc func(ctx context.Context, network, address string) (net.Conn, error)
	// LookupFunc is what LookupHost asks; nil means net.DefaultResolver.
	LookupFunc func(ctx context.Context, host string) ([]string, error)
	// Hook says that the user's own code runs between the create's start and the dial.
	Hook bool
	// SetupTurns is how many statements the driver sends between login and hand-over, each awaited; negative if that is not known.
	SetupTurns int
	// LoginError tells an error of the login from one of the driver's own statements after it; nil takes every error for the login's.
	// It matters only where SetupTurns is not 0 and the wire is encrypted.
	LoginError func(error) bool
}

// DialContext dials with DialFunc under ctx and returns its result: the same error, and a connection that behaves as the inner one. A
// connection that is itself a *tls.Conn is returned as it is, because drivers ask for that type. So is any where nothing is to be watched: no
// Conn in ctx, and a nil or disabled Profiler.
//
// The connection is not the inner one. Beyond net.Conn it has SyscallConn where that has it, and CloseRead and CloseWrite where that has both;
// and NetConn, which returns the inner one. What else a *net.TCPConn or *net.UnixConn has (SetKeepAlive, SetNoDelay, SetLinger, SetReadBuffer,
// File, ReadFrom, WriteTo and so on) is reached through NetConn or set by DialFunc. No driver that connprof is for asks for ReadFrom or
// WriteTo; go-sql-driver/mysql alone asks for a *net.TCPConn (connector.go), to set keep-alive on, which net.Dialer has done by then unless its
// KeepAlive is negative.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dial := d.DialFunc
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c := profiler.FromContext(ctx)
	if c == nil || c.Create() != nil {
		e := d.Endpoint
		if e.Address == "" {
			e.Address = address
		}
		if c = d.Profiler.NewConn(e, cmp.Or(d.Role, profiler.RoleOther)); c == nil {
			return dial(ctx, network, address)
		}
	}
	// Only a connection of a pool has an owner who ends the create, and MongoDB's heartbeat.
	alone := c.Role() != profiler.RolePool && c.Kind() != "heartbeat"

	entry := profiler.Now()
	c.Lost(entry, errSuperseded)
	if d.Hook {
		c.Cut(profiler.Hook, entry)
	} else {
		c.Cut(profiler.Other, entry)
	}
	t := newDialTrace(c, d.DialFunc != nil, attempt{network: network, address: address, start: entry})
	nc, err := dial(t.context(ctx), network, address)
	ret := profiler.Now()
	if err != nil {
		t.failed(ret, err)
		if alone {
			c.Update(func(cr *profiler.Create) { cr.TotalUnknown = true })
			c.Fail(profiler.NoCaller, err)
		}
		return nc, err
	}
	if nc == nil { // a dialer's mistake, which its caller finds as it would without us
		t.failed(ret, errNoConn)
		return nil, nil
	}
	t.connected(ret, nc)
	if _, ok := nc.(*tls.Conn); ok {
		if alone {
			c.ReadyAlone(ret)
		}
		return nc, nil
	}
	w := &watch{c: c, d: d, nc: nc, alone: alone, dialed: ret, lastIO: ret}
	w.tcp.connected(nc)
	c.Watch(w)
	return newConn(nc, w), nil
}

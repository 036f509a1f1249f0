package handshake

import (
	"net"
	"sync/atomic"
	"syscall"

	"github.com/connprof/connprof/profiler"
)

// conn is the connection under TLS. While it is being made its reads and writes are shown to a watch, and to Exchanges while an operation
// runs that asks for it; otherwise a Write costs one atomic load and a Read two. It never alters, delays, splits or merges what passes, and sets no deadline.
type conn struct {
	net.Conn
	tapped atomic.Pointer[tap]
	of     *profiler.Conn
}

// tap is what reads and writes go through: the watch of a create, or an operation's Exchanges.
type tap struct {
	watch     *watch
	exchanges *Exchanges
}

func (t *tap) Read(b []byte) (int, error) {
	if t.watch != nil {
		return t.watch.Read(b)
	}
	return t.exchanges.read(b)
}

func (t *tap) Write(b []byte) (int, error) {
	if t.watch != nil {
		return t.watch.Write(b)
	}
	return t.exchanges.write(b)
}

// watching is what watches the connection's making, nil once that is over.
func (c *conn) watching() *watch {
	if t := c.tapped.Load(); t != nil {
		return t.watch
	}
	return nil
}

// Drivers and the standard library ask a connection for more than net.Conn, so each of these is there exactly when the inner connection
// has it. syscall.Conn: drivers check a connection's health through it; hiding it turns the check off, and claiming it over a connection
// without it makes every check fail. halfCloser: TCP and unix sockets have it.
type (
	sysConn struct {
		conn // first, and no pointer: its methods are one jump away
		syscall.Conn
	}
	halfConn struct {
		conn
		halfCloser
	}
	sysHalfConn struct {
		conn
		syscall.Conn
		halfCloser
	}
	halfCloser interface {
		CloseRead() error
		CloseWrite() error
	}
)

var (
	_ net.Conn     = (*conn)(nil)
	_ net.Conn     = (*sysConn)(nil)
	_ net.Conn     = (*halfConn)(nil)
	_ net.Conn     = (*sysHalfConn)(nil)
	_ syscall.Conn = (*sysConn)(nil)
	_ syscall.Conn = (*sysHalfConn)(nil)
)

func newConn(nc net.Conn, w *watch) net.Conn {
	s, sys := nc.(syscall.Conn)
	h, half := nc.(halfCloser)
	switch {
	case sys && half:
		c := &sysHalfConn{Conn: s, halfCloser: h}
		c.conn.watch(nc, w)
		return c
	case sys:
		c := &sysConn{Conn: s}
		c.conn.watch(nc, w)
		return c
	case half:
		c := &halfConn{halfCloser: h}
		c.conn.watch(nc, w)
		return c
	}
	c := new(conn)
	c.watch(nc, w)
	return c
}

// watch makes c a connection over nc that w watches.
func (c *conn) watch(nc net.Conn, w *watch) {
	c.Conn, c.of = nc, w.c
	w.conn, w.tap.watch = c, w
	c.tapped.Store(&w.tap)
}

// NetConn returns the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(b []byte) (int, error) {
	if t := c.tapped.Load(); t != nil {
		return t.Read(b)
	}
	n, err := c.Conn.Read(b)
	if t := c.tapped.Load(); t != nil { // begun before an operation, and ended in it
		t.exchanges.missed(n, err)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if t := c.tapped.Load(); t != nil {
		return t.Write(b)
	}
	return c.Conn.Write(b)
}

// Close closes the inner connection, each time it is called, and notes the end.
func (c *conn) Close() error {
	t := c.tapped.Load()
	err := c.Conn.Close()
	switch {
	case t == nil:
	case t.watch != nil:
		t.watch.closed()
	case t.exchanges.holds():
		return err
	}
	c.of.WireClosed()
	return err
}

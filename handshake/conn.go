package handshake

import (
	"net"
	"sync/atomic"
	"syscall"

	"github.com/connprof/connprof/profiler"
)

// conn is the connection under TLS. While it is being made its reads and writes are shown to a watch; afterwards each costs one atomic
// load. It never alters, delays, splits or merges what passes, and sets no deadline.
type conn struct {
	net.Conn
	watching atomic.Pointer[watch]
	of       *profiler.Conn
}

// Drivers and the standard library ask a connection for more than net.Conn, so each of these is there exactly when the inner connection
// has it. syscall.Conn: drivers check a connection's health through it; hiding it turns the check off, and claiming it over a connection
// without it makes every check fail. halfCloser: TCP and unix sockets have it.
type (
	sysConn struct {
		*conn
		syscall.Conn
	}
	halfConn struct {
		*conn
		halfCloser
	}
	sysHalfConn struct {
		*conn
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
	_ net.Conn     = sysConn{}
	_ net.Conn     = halfConn{}
	_ net.Conn     = sysHalfConn{}
	_ syscall.Conn = sysConn{}
	_ syscall.Conn = sysHalfConn{}
)

func newConn(nc net.Conn, w *watch) net.Conn {
	c := &conn{Conn: nc, of: w.c}
	c.watching.Store(w)
	w.conn = c
	s, sys := nc.(syscall.Conn)
	h, half := nc.(halfCloser)
	switch {
	case sys && half:
		return &sysHalfConn{c, s, h}
	case sys:
		return &sysConn{c, s}
	case half:
		return &halfConn{c, h}
	}
	return c
}

// NetConn returns the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(b []byte) (int, error) {
	if w := c.watching.Load(); w != nil {
		return w.Read(b)
	}
	return c.Conn.Read(b)
}

func (c *conn) Write(b []byte) (int, error) {
	if w := c.watching.Load(); w != nil {
		return w.Write(b)
	}
	return c.Conn.Write(b)
}

// Close closes the inner connection, each time it is called, and notes the end.
func (c *conn) Close() error {
	w := c.watching.Load()
	err := c.Conn.Close()
	if w != nil {
		w.closed()
	}
	c.of.WireClosed()
	return err
}

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

// sysConn is a conn over one that implements syscall.Conn. Drivers check a connection's health through that interface: hiding it turns
// the check off, and claiming it over a connection without it makes every check fail.
type sysConn struct {
	*conn
	sys syscall.Conn
}

// SyscallConn is the inner connection's.
func (c sysConn) SyscallConn() (syscall.RawConn, error) { return c.sys.SyscallConn() }

var (
	_ net.Conn     = (*conn)(nil)
	_ net.Conn     = sysConn{}
	_ syscall.Conn = sysConn{}
)

func newConn(nc net.Conn, w *watch) net.Conn {
	c := &conn{Conn: nc, of: w.c}
	c.watching.Store(w)
	w.detach = func() { c.watching.Store(nil) }
	if s, ok := nc.(syscall.Conn); ok {
		return sysConn{c, s}
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

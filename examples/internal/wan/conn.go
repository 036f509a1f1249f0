package wan

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// conn is a connection over the link that fails as a *net.TCPConn does: after a deadline with os.ErrDeadlineExceeded,
// after its own Close with net.ErrClosed, after the peer's reset with syscall.ECONNRESET. Drivers ask for these.
type conn struct {
	*gonet.TCPConn
	local, remote net.Addr // kept, because a closed endpoint has forgotten them
	closed        atomic.Bool
}

var _ net.Conn = (*conn)(nil)

func newConn(c *gonet.TCPConn) *conn {
	return &conn{TCPConn: c, local: c.LocalAddr(), remote: c.RemoteAddr()}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 && !c.closed.Load() {
		return 0, nil
	}
	n, err := c.TCPConn.Read(b)
	return n, c.translate("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, c.translate("write", err)
}

// CloseWrite sends the end of the stream and leaves reading open.
func (c *conn) CloseWrite() error { return c.translate("close", c.TCPConn.CloseWrite()) }

// Close ends reads and writes in progress too. With data unread it resets the connection, as the kernel does.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return c.opError("close", net.ErrClosed)
	}
	_ = c.TCPConn.SetDeadline(time.Unix(1, 0)) // wakes them; translate sees that the reason is the Close
	return c.TCPConn.Close()
}

func (c *conn) SetDeadline(t time.Time) error      { return c.deadline(c.TCPConn.SetDeadline, t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.deadline(c.TCPConn.SetReadDeadline, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.deadline(c.TCPConn.SetWriteDeadline, t) }

func (c *conn) deadline(set func(time.Time) error, t time.Time) error {
	if c.closed.Load() {
		return c.opError("set", net.ErrClosed)
	}
	return set(t)
}

func (c *conn) translate(op string, err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return c.opError(op, net.ErrClosed)
	case err == io.EOF:
		return io.EOF
	case errors.As(err, &timeout) && timeout.Timeout():
		return c.opError(op, os.ErrDeadlineExceeded)
	}
	return c.opError(op, systemError(op, err))
}

func (c *conn) opError(op string, cause error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: cause}
}

// errnos gives the stack's errors the system's numbers. The adapter hands on only their texts.
var errnos = map[string]syscall.Errno{
	(&tcpip.ErrConnectionRefused{}).String():  syscall.ECONNREFUSED,
	(&tcpip.ErrConnectionReset{}).String():    syscall.ECONNRESET,
	(&tcpip.ErrConnectionAborted{}).String():  syscall.ECONNABORTED,
	(&tcpip.ErrClosedForSend{}).String():      syscall.EPIPE,
	(&tcpip.ErrTimeout{}).String():            syscall.ETIMEDOUT,
	(&tcpip.ErrHostUnreachable{}).String():    syscall.EHOSTUNREACH,
	(&tcpip.ErrNetworkUnreachable{}).String(): syscall.ENETUNREACH,
}

// systemError turns the adapter's error into the os.SyscallError that the net package would give; one it has no number
// for is handed on.
func systemError(call string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errno, ok := errnos[err.Error()]; ok {
		return os.NewSyscallError(call, errno)
	}
	return err
}

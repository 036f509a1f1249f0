package handshake

import (
	"net"
	"sync/atomic"

	"github.com/connprof/connprof/profiler"
)

// Exchanges counts the request/response exchanges of one operation after another on a connection that a Dialer made, for drivers whose own
// hooks don't tell them. Between End and Begin it costs nothing. A connection has one user at a time, who calls Begin and End; the driver's
// reads and writes between them may come from other goroutines. All methods of a nil Exchanges do nothing.
//
// An exchange is a write, or several, and the first read after it that brought something. Where a read brought something during a write
// (a driver that reads while it still sends) the exchanges can't be told apart, and are unknown.
//
// A connection that fails during an operation may be closed before the driver has said how the operation ended, which is why: that close is
// reported at End, if nobody has reported one until then.
type Exchanges struct {
	c        *conn
	tap      tap
	writing  atomic.Int32
	state    atomic.Uint64 // flags, and the number of answered exchanges above them
	answered atomic.Int64  // Instant of the read that answered the last one
}

const (
	exchangeOpen   = 1 << iota // what was written last has no answer yet
	exchangesMixed             // a read returned during a write
	connFailed                 // a read or a write failed, or the driver said so
	connClosed                 // and it was closed
	oneExchange
)

// ExchangesOf is for a connection that a Dialer returned, or something over it that has NetConn, such as a *tls.Conn; nil for any other.
func ExchangesOf(nc net.Conn) *Exchanges {
	c, ok := under(nc).(interface{ exchanges() *Exchanges })
	if !ok {
		return nil
	}
	return c.exchanges()
}

func (c *conn) exchanges() *Exchanges {
	x := &Exchanges{c: c}
	x.tap.exchanges = x
	return x
}

// Begin begins an operation. While the connection is still being made it does nothing.
func (x *Exchanges) Begin() {
	if x == nil {
		return
	}
	x.state.Store(0)
	x.c.tapped.CompareAndSwap(nil, &x.tap)
}

// Answered is the number of exchanges since Begin, and the return of the read that answered the last of them; both are zero if they are not
// known, because what was written last had no answer, or reads and writes were mixed.
func (x *Exchanges) Answered() (turns int, at profiler.Instant) {
	if x == nil {
		return 0, 0
	}
	s := x.state.Load()
	if s < oneExchange || s&(exchangeOpen|exchangesMixed) != 0 {
		return 0, 0
	}
	return int(s / oneExchange), profiler.Instant(x.answered.Load())
}

// Failed says that the driver is about to close the connection because of what the server answered.
func (x *Exchanges) Failed() {
	if x != nil {
		x.state.Or(connFailed)
	}
}

// End ends the operation. It may be called from another goroutine than Begin, and when none runs.
func (x *Exchanges) End() {
	if x != nil && x.c.tapped.CompareAndSwap(&x.tap, nil) && x.state.Load()&connClosed != 0 {
		x.c.of.WireClosed()
	}
}

// holds reports whether End will report the close of the connection.
func (x *Exchanges) holds() bool {
	if x.state.Load()&connFailed == 0 {
		return false
	}
	x.state.Or(connClosed)
	return x.c.tapped.Load() == &x.tap // or else End may have missed it
}

func (x *Exchanges) read(b []byte) (int, error) {
	n, err := x.c.Conn.Read(b)
	if err != nil {
		x.state.Or(connFailed)
	}
	switch {
	case n == 0:
	case x.writing.Load() > 0:
		x.state.Or(exchangesMixed)
	case x.state.Load()&exchangeOpen != 0:
		x.answered.Store(int64(profiler.Now()))
		x.state.Add(oneExchange - exchangeOpen)
	}
	return n, err
}

func (x *Exchanges) write(b []byte) (int, error) {
	x.writing.Add(1)
	x.state.Or(exchangeOpen)
	n, err := x.c.Conn.Write(b)
	x.writing.Add(-1)
	if err != nil {
		x.state.Or(connFailed)
	}
	return n, err
}

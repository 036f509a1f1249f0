package handshake

import (
	"net"
	"sync/atomic"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// Exchanges counts the request/response exchanges, and the bytes, of one operation after another on a connection that a Dialer made: drivers'
// own hooks don't tell them. Between End and Begin it costs nothing. A connection has one user at a time, who calls Begin and End; the
// driver's reads and writes between them may come from other goroutines. All methods of a nil Exchanges do nothing.
//
// An exchange is a write, or several, and the first read that then brought something. Where a read did so during a write that another one
// followed (a driver that reads while it still sends) the exchanges can't be told apart, and are unknown.
//
// A connection that fails during an operation may be closed before the driver has said how the operation ended, which is why: that close is
// reported at End, if nobody has reported one until then.
type Exchanges struct {
	c              *conn
	tap            tap
	stamps         bool          // when exchanges are answered is asked for
	reader         bool          // the driver reads while no operation runs: what is read for one can't be told
	sent, received passing       // since the connection was handed over, while operations ran
	from           [2]uint64     // what they were at Begin
	state          atomic.Uint64 // flags, and the number of answered exchanges above them
	answered       atomic.Int64  // Instant of the read that answered the last one
	follows        bool          // who writes is asked for
	writer         atomic.Uint64 // the goroutine that wrote last
}

// passing counts the bytes that passed, and, above them, the calls that run.
type passing struct{ atomic.Uint64 }

const oneCall = 1 << 48

func (p *passing) began()        { p.Add(oneCall) }
func (p *passing) runs() bool    { return p.Load() >= oneCall }
func (p *passing) bytes() uint64 { return p.Load() % oneCall }

// ended takes a call that passed n of so many bytes. A tunnel may count its framing, too, against io.Writer's contract.
func (p *passing) ended(n, of int) { p.Add(uint64(max(0, min(n, of))) - oneCall) }

func since(now, then uint64) int64 { return int64((now - then) % oneCall) }

const (
	exchangeOpen   = 1 << iota // what was written last has no answer yet
	exchangeEarly              // a read returned during the last write
	exchangesMixed             // and another write followed
	connFailed                 // a read or a write failed, or the driver said so
	connClosed                 // and it was closed
	exchangesSeen              // all since Begin
	readMissed                 // but for a read that had begun before
	oneExchange
)

var (
	_ profiler.Meter   = (*Exchanges)(nil)
	_ profiler.Metered = (*watch)(nil)
)

// Meter is for whoever runs operations on the connection once it is made.
func (w *watch) Meter() profiler.Meter { return w.conn.exchanges(false) }

// ExchangesOf is for a connection that a Dialer returned, or something over it that has NetConn, such as a *tls.Conn; nil for any other.
func ExchangesOf(nc net.Conn) *Exchanges {
	c, ok := under(nc).(interface{ exchanges(bool) *Exchanges })
	if !ok {
		return nil
	}
	return c.exchanges(true)
}

func (c *conn) exchanges(stamps bool) *Exchanges {
	x := &Exchanges{c: c, stamps: stamps}
	x.tap.exchanges = x
	return x
}

// Begin begins an operation. While the connection is still being made it does nothing.
func (x *Exchanges) Begin() {
	if x == nil {
		return
	}
	x.reader = x.reader || x.received.runs()
	if t := x.c.tapped.Load(); t != nil && t != &x.tap {
		x.state.Store(0)
		return
	}
	x.from = [2]uint64{x.sent.bytes(), x.received.bytes()}
	x.state.Store(exchangesSeen)
	x.c.tapped.CompareAndSwap(nil, &x.tap)
}

// Answered is the number of exchanges since Begin, and the return of the read that answered the last of them; both are zero if they are not
// known, because what was written last had no answer, or reads and writes were mixed. A Conn's Meter tells no return.
func (x *Exchanges) Answered() (turns int, at profiler.Instant) {
	if x == nil {
		return 0, 0
	}
	s := x.state.Load()
	if s < oneExchange || s&(exchangeOpen|exchangesMixed|readMissed) != 0 {
		return 0, 0
	}
	return int(s / oneExchange), profiler.Instant(x.answered.Load())
}

// Bytes is what was written to the network since Begin, and what was read from it. It is not known while the connection is being made, nor
// where the driver reads ahead of what it asks for: on a goroutine of its own, whose read began before.
func (x *Exchanges) Bytes() (sent, received int64, known bool) {
	if x == nil || x.reader || x.received.runs() || x.state.Load()&(exchangesSeen|readMissed) != exchangesSeen {
		return 0, 0, false
	}
	return since(x.sent.bytes(), x.from[0]), since(x.received.bytes(), x.from[1]), true
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

// missed takes the return of a read that nobody watched, because no operation ran when it began: what it brought may belong to this one.
func (x *Exchanges) missed(n int, err error) {
	if x == nil {
		return
	}
	if n > 0 {
		x.state.Or(readMissed)
	}
	if err != nil {
		x.state.Or(connFailed)
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
	x.received.began()
	n, err := x.c.Conn.Read(b)
	x.received.ended(n, len(b))
	if err != nil {
		x.state.Or(connFailed)
	}
	if n > 0 {
		x.brought()
	}
	return n, err
}

// brought says that a read brought something, which answers what is open. Of reads that return at once one does, and none if an operation
// ended or began meanwhile and nothing is open in that.
func (x *Exchanges) brought() {
	for s := x.state.Load(); s&exchangeOpen != 0; s = x.state.Load() {
		answered := s + oneExchange - exchangeOpen
		if x.sent.runs() {
			answered |= exchangeEarly
		}
		var at profiler.Instant
		if x.stamps {
			at = profiler.Now()
		}
		if x.state.CompareAndSwap(s, answered) {
			x.answered.Store(int64(at))
			return
		}
	}
}

// FollowWriter asks for Writer, from the next Begin on, and must come before it. Each write of an operation then takes some microseconds longer.
func (x *Exchanges) FollowWriter() { x.follows = true }

// Writer is the number of the goroutine that wrote last while an operation ran, as a traceback shows it: 0 if none did since FollowWriter, or if
// it was forgotten. It may be called from any goroutine, as Forget may.
func (x *Exchanges) Writer() uint64 { return x.writer.Load() }

// Forget makes Writer 0 if it is the goroutine g.
func (x *Exchanges) Forget(g uint64) { x.writer.CompareAndSwap(g, 0) }

func (x *Exchanges) write(b []byte) (int, error) {
	if x.follows {
		x.writer.Store(goid.Get()) // before there can be an answer
	}
	x.sent.began()
	if len(b) > 0 && x.state.Load()&exchangeOpen == 0 && x.state.Or(exchangeOpen)&exchangeEarly != 0 {
		x.state.Or(exchangesMixed)
	}
	n, err := x.c.Conn.Write(b)
	x.sent.ended(n, len(b))
	if err != nil {
		x.state.Or(connFailed)
	}
	return n, err
}

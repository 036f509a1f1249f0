package handshake

import (
	"errors"
	"net"
	"sync"

	"github.com/connprof/connprof/profiler"
)

// A watch sees what passes over a connection while it is being made: a preamble in the clear (MySQL's greeting and SSLRequest,
// PostgreSQL's SSLRequest and its answer), a TLS handshake or none, then request/response exchanges up to hand-over. It only keeps
// marks; they are turned into phases when the create ends (Settle), because only the end tells which exchange was the last of the login.
//
// The two directions may be used from two goroutines. A read that returns while a write is under way is looked at after that write,
// since what it holds may be the answer.
type watch struct {
	c      *profiler.Conn
	d      *Dialer
	nc     net.Conn
	alone  bool  // nobody else ends the create
	conn   *conn // lets go of the watch when it is over
	tap    tap
	dialed profiler.Instant

	mu       sync.Mutex
	over     bool              // mu
	writing  int               // mu: writes under way
	reading  int               // mu: reads under way
	waiting  []chunk           // mu: reads that returned while a write was under way
	held     int               // mu: bytes in waiting
	lastIO   profiler.Instant  // mu: return of the last read or write
	in, out  int64             // mu
	state    state             // mu
	first    firstWords        // mu
	asked    bool              // mu: the client sent a request for TLS in the clear
	greeted  profiler.Instant  // mu: return of the first read of a preamble
	greeting greeting          // mu
	tls      *tlsWatch         // mu
	tlsBegan profiler.Instant  // mu: end of the I/O before the ClientHello
	record   profiler.Instant  // mu: entry of the write that began the client's record in progress, after the handshake
	started  profiler.Instant  // mu: entry of the first application write
	turns    turns             // mu
	opening  opening           // mu: the other side's first bytes
	packets  *mysqlPackets     // mu: set while MySQL's login is in the clear
	postgres *postgresMessages // mu: set while PostgreSQL's is
	accepted accepted          // mu
	err      error             // mu: the first error of a read or write
	said     error             // mu: why the driver gave the connection up, if it told
	tcp      tcpFacts
}

type state uint8

const (
	preamble state = iota
	handshaking
	exchanging
)

// chunk is what one read returned.
type chunk struct {
	b          []byte
	entry, ret profiler.Instant
}

// accepted is where a login was answered with OK: seen in the clear, or told by the driver.
type accepted struct {
	at   profiler.Instant
	turn int // the exchange that carried it, counted from 1
	told bool
}

// maxHeld bounds the copies of reads that returned while a write was under way. No answer to a write in a create is as long; what comes
// beyond it is looked at at once.
const maxHeld = 256 << 10

func (w *watch) Read(b []byte) (int, error) {
	w.mu.Lock()
	w.reading++
	w.turns.reading()
	w.mu.Unlock()
	entry := profiler.Now()
	n, err := w.nc.Read(b)
	ret := profiler.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading--
	if w.over {
		return n, err
	}
	if n > 0 {
		if w.writing > 0 && w.held+n <= maxHeld {
			w.waiting = append(w.waiting, chunk{append([]byte(nil), b[:n]...), entry, ret})
			w.held += n
		} else {
			w.drain()
			w.read(b[:n], entry, ret)
		}
	}
	w.failed(err)
	return n, err
}

func (w *watch) Write(b []byte) (int, error) {
	entry := profiler.Now()
	w.mu.Lock()
	over := w.over
	if !over {
		w.writing++
		w.aboutToWrite()
	}
	w.mu.Unlock()
	n, err := w.nc.Write(b)
	if over {
		return n, err
	}
	ret := profiler.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing--
	if w.over {
		return n, err
	}
	w.wrote(b, n, entry, ret)
	w.failed(err)
	if w.writing == 0 {
		w.drain()
	}
	return n, err
}

// aboutToWrite ends the create of a connection that no one else ends: its first exchange is over when the client writes again.
func (w *watch) aboutToWrite() {
	if !w.alone || len(w.turns.all) == 0 || !w.turns.answered() {
		return
	}
	end := w.turns.last().read
	w.mu.Unlock() // ReadyAlone calls Settle
	w.c.ReadyAlone(end)
	w.mu.Lock()
}

func (w *watch) drain() {
	for _, r := range w.waiting {
		w.read(r.b, r.entry, r.ret)
	}
	w.waiting, w.held = nil, 0
}

// failed keeps the first error. One that our own side's Close causes says nothing.
func (w *watch) failed(err error) {
	if err != nil && w.err == nil && !errors.Is(err, net.ErrClosed) {
		w.err = err
	}
}

// wrote takes a write of which n bytes went out. One that failed began its phase all the same: every begin is the entry of a call. Only
// a handshake is not taken further by what did not go out.
func (w *watch) wrote(b []byte, n int, entry, ret profiler.Instant) {
	n = max(0, min(n, len(b))) // a tunnel's Write may count its framing, too
	w.out += int64(n)
	unsent := len(b) - n
	for len(b) > 0 && w.state == preamble {
		var said word
		said, b = w.first.add(b, entry, ret, w.lastIO)
		switch said {
		case tlsRequest:
			w.asked = true
			w.first = firstWords{}
			w.lastIO = max(w.lastIO, entry) // where what follows it in the same write begins
		case tlsBegins:
			w.state = handshaking
			w.tls = new(tlsWatch)
			w.tlsBegan = w.first.before
			w.tls.start(w.tlsBegan)
			w.tls.wrote(w.first.said(), w.first.entry, ret)
		case otherWord:
			w.spoke()
		}
	}
	if w.state == handshaking && !w.tls.done() {
		b = w.tls.wrote(b[:max(0, len(b)-unsent)], entry, ret)
	}
	switch {
	case len(b) == 0:
	case w.state == exchanging && w.tls == nil:
		w.turns.wrote(entry, ret)
		if w.packets != nil {
			w.packets.login.wrote(b)
		}
	case w.secured():
		w.wroteRecords(b, entry, ret)
	}
	// After a handshake that failed, or bytes that are no TLS, no exchange is claimed.
	w.lastIO = max(w.lastIO, ret)
}

// spoke begins the exchanges in the clear with what the client has said so far.
func (w *watch) spoke() {
	w.state = exchanging
	w.started = w.first.entry
	w.turns.wrote(w.first.entry, w.first.ret)
	if w.reading > 0 {
		w.turns.reading()
	}
	switch {
	case w.greeting.mysql:
		w.packets = new(mysqlPackets)
		w.packets.login.wrote(w.first.said())
	case w.d.Endpoint.System == "postgresql":
		w.postgres = new(postgresMessages)
	}
}

// wroteRecords takes what the client writes under TLS after the handshake.
func (w *watch) wroteRecords(b []byte, entry, ret profiler.Instant) {
	for len(b) > 0 {
		if w.tls.atRecord() {
			w.record = max(entry, w.tls.ended()) // one write may hold the end of the handshake, too
		}
		var application bool
		if application, b = w.tls.afterWrite(b); !application {
			continue
		}
		if w.state != exchanging {
			w.state, w.started = exchanging, w.record
		}
		w.turns.wrote(w.record, ret)
		if w.reading > 0 {
			w.turns.reading()
		}
	}
}

func (w *watch) read(b []byte, entry, ret profiler.Instant) {
	w.in += int64(len(b))
	w.opening.read(b)
	if w.state == preamble && w.first.n > 0 {
		w.spoke() // an answer to what looked like the beginning of something longer
	}
	switch {
	case w.state == preamble:
		if w.greeted == 0 {
			w.greeted = ret
		}
		w.greeting.read(b)
	case w.state == handshaking && !w.tls.done():
		w.tls.read(b, entry, ret)
	case w.state == handshaking:
		w.tls.afterRead(b)
	default:
		w.turns.read(ret)
		if w.tls != nil {
			w.tls.afterRead(b)
		}
		if w.packets != nil && w.accepted.at == 0 && w.packets.accepted(b) {
			w.accepted = accepted{at: ret, turn: len(w.turns.all)}
		}
		if w.postgres != nil {
			w.postgres.read(b)
		}
	}
	w.lastIO = max(w.lastIO, ret)
}

// refused reports whether the server refused the handshake after its end: TLS 1.3's late word on a client certificate.
func (w *watch) refused() bool { return w.tls != nil && w.tls.afterRead(nil) }

// cancels reports whether the connection has carried a cancel request. It was ready when the request began: there is no login, and the
// server answers by closing (PostgreSQL protocol §55.2.8).
func (w *watch) cancels() bool { return w.c.Role() == profiler.RoleCancel && w.state == exchanging }

// closed ends the create of a connection that no one else ends.
func (w *watch) closed() {
	if !w.alone {
		return
	}
	w.mu.Lock()
	w.drain()
	w.turns.dropFarewell()
	ready := len(w.turns.all) > 0 && w.turns.answered()
	var end profiler.Instant
	if ready {
		end = w.turns.last().read
	}
	if w.cancels() {
		ready, end = true, w.started
	}
	err := w.err
	w.mu.Unlock()
	if ready {
		w.c.ReadyAlone(end)
		return
	}
	if err == nil {
		err = net.ErrClosed
	}
	w.c.Update(func(cr *profiler.Create) { cr.TotalUnknown = true })
	w.c.Fail(profiler.NoCaller, err)
}

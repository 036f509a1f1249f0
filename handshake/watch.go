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
	alone  bool // nobody else ends the create
	detach func()
	dialed profiler.Instant

	mu       sync.Mutex
	over     bool             // mu
	writing  int              // mu: writes under way
	waiting  []chunk          // mu: reads that returned meanwhile
	lastIO   profiler.Instant // mu: return of the last read or write
	in, out  int64            // mu
	state    state            // mu
	asked    bool             // mu: the client sent a request for TLS in the clear
	greeted  profiler.Instant // mu: return of the first read of a preamble
	greeting greeting         // mu
	tls      *tlsWatch        // mu
	tlsBegan profiler.Instant // mu: end of the I/O before the ClientHello
	refused  bool             // mu: TLS 1.3's late refusal of a client certificate
	started  profiler.Instant // mu: entry of the first application write
	turns    turns            // mu
	packets  *mysqlPackets    // mu: set while MySQL's login is in the clear
	accepted accepted         // mu
	err      error            // mu: the first error of a read or write
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

// accepted is where a login in the clear was answered with OK.
type accepted struct {
	at   profiler.Instant
	turn int // the exchange that carried it, counted from 1
}

func (w *watch) Read(b []byte) (int, error) {
	entry := profiler.Now()
	n, err := w.nc.Read(b)
	ret := profiler.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return n, err
	}
	if n > 0 {
		if w.writing > 0 {
			w.waiting = append(w.waiting, chunk{append([]byte(nil), b[:n]...), entry, ret})
		} else {
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
	if n > 0 {
		w.wrote(b[:n], entry, ret)
	}
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
	w.waiting = nil
}

// failed keeps the first error. One that our own side's Close causes says nothing.
func (w *watch) failed(err error) {
	if err != nil && w.err == nil && !errors.Is(err, net.ErrClosed) {
		w.err = err
	}
}

func (w *watch) wrote(b []byte, entry, ret profiler.Instant) {
	w.out += int64(len(b))
	switch w.state {
	case preamble:
		switch {
		case looksLikeClientHello(b):
			w.state = handshaking
			w.tls = new(tlsWatch)
			w.tlsBegan = w.lastIO
			w.tls.start(w.tlsBegan)
			w.tls.wrote(b, entry, ret)
		case isSSLRequest(b):
			w.asked = true
		default:
			w.begin(entry)
			w.turns.wrote(entry, ret)
			if w.greeting.mysql {
				w.packets = new(mysqlPackets)
			}
		}
	case handshaking:
		if w.tls.done() {
			w.begin(entry)
			w.turns.wrote(entry, ret)
		} else {
			w.tls.wrote(b, entry, ret)
		}
	case exchanging:
		w.turns.wrote(entry, ret)
	}
	w.lastIO = max(w.lastIO, ret)
}

func (w *watch) begin(entry profiler.Instant) {
	w.state = exchanging
	w.started = entry
}

func (w *watch) read(b []byte, entry, ret profiler.Instant) {
	w.in += int64(len(b))
	switch w.state {
	case preamble:
		if w.greeted == 0 {
			w.greeted = ret
		}
		w.greeting.read(b)
	case handshaking:
		if w.tls.done() {
			w.refused = w.tls.afterRead(b) || w.refused
		} else {
			w.tls.read(b, entry, ret)
		}
	case exchanging:
		w.turns.read(ret)
		if w.tls != nil {
			w.refused = w.tls.afterRead(b) || w.refused
		}
		if w.packets != nil && w.accepted.at == 0 && w.packets.accepted(b) {
			w.accepted = accepted{at: ret, turn: len(w.turns.all)}
		}
	}
	w.lastIO = max(w.lastIO, ret)
}

// closed ends the create of a connection that no one else ends.
func (w *watch) closed() {
	if !w.alone {
		return
	}
	w.mu.Lock()
	w.drain()
	ready := len(w.turns.all) > 0 && w.turns.answered()
	var end profiler.Instant
	if ready {
		end = w.turns.last().read
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
	w.c.Fail(nil, err)
}

package handshake

import (
	"encoding/binary"

	"github.com/connprof/connprof/profiler"
)

// firstWords tells what a client says first: a request for TLS in the clear, a ClientHello, or anything else, with which the exchanges
// have begun. It takes any split of the input and keeps no more than the longest request, whose bytes hold nothing secret.
type firstWords struct {
	buf    [mysqlRequestSize]byte
	n      int
	entry  profiler.Instant // of the write of buf's first byte
	ret    profiler.Instant // of the write of its last
	before profiler.Instant // return of the I/O before it
}

type word uint8

const (
	undecided  word = iota
	tlsRequest      // a whole one
	tlsBegins       // the first bytes of a ClientHello
	otherWord
)

const (
	mysqlRequestSize    = 4 + 32
	postgresRequestSize = 8
)

// add takes the next bytes of one write up to the one that decides, and returns the rest.
func (f *firstWords) add(b []byte, entry, ret, before profiler.Instant) (w word, rest []byte) {
	for i, c := range b {
		if f.n == 0 {
			f.entry, f.before = entry, before
		}
		f.buf[f.n] = c
		f.n++
		f.ret = ret
		if w := wordOf(f.buf[:f.n]); w != undecided {
			return w, b[i+1:]
		}
	}
	return undecided, nil
}

// said is what was kept.
func (f *firstWords) said() []byte { return f.buf[:f.n] }

// wordOf classifies the beginning of what a client says; undecided asks for more. It decides after mysqlRequestSize bytes at the latest.
func wordOf(b []byte) word {
	if looksLikeClientHello(b) {
		return tlsBegins
	}
	if isTLSRequest(b) {
		return tlsRequest
	}
	if len(b) <= recordHeaderSize && b[0] == recordHandshake && prefixed(b[1:], 3) ||
		len(b) < postgresRequestSize && prefixed(b, 0, 0, 0, postgresRequestSize, 0x04, 0xd2, 0x16) ||
		len(b) < mysqlRequestSize && prefixed(b, 32, 0, 0, 1) {
		return undecided
	}
	return otherWord
}

// prefixed reports whether b and p agree as far as both go.
func prefixed(b []byte, p ...byte) bool {
	for i := range min(len(b), len(p)) {
		if b[i] != p[i] {
			return false
		}
	}
	return true
}

// isTLSRequest reports whether b is a client's request in the clear to encrypt what follows: MySQL's SSLRequest is a packet of 32 bytes
// with sequence number 1 and CLIENT_SSL among its capabilities (MySQL internals, Protocol::SSLRequest), PostgreSQL's SSLRequest has 8
// bytes and so has its GSSENCRequest (protocol §55.2.10, §55.2.11).
func isTLSRequest(b []byte) bool {
	const (
		clientSSL  = 1 << 11
		sslCode    = 80877103
		gssEncCode = 80877104
	)
	switch len(b) {
	case mysqlRequestSize:
		return prefixed(b, 32, 0, 0, 1) && binary.LittleEndian.Uint32(b[4:])&clientSSL != 0
	case postgresRequestSize:
		code := binary.BigEndian.Uint32(b[4:])
		return binary.BigEndian.Uint32(b) == postgresRequestSize && (code == sslCode || code == gssEncCode)
	}
	return false
}

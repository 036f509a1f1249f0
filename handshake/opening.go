package handshake

import (
	"encoding/binary"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// opening keeps the first bytes of the other side, whatever comes of them, to tell which protocol begins like that: an HTTP server on a
// database's port is otherwise one more time-out. It takes any split of the input.
type opening struct {
	b [16]byte
	n int
}

func (o *opening) read(b []byte) { o.n += copy(o.b[o.n:], b) }
func (o *opening) said() []byte  { return o.b[:o.n] }

// expectation is what an endpoint's server may say first.
type expectation struct {
	system string
	asked  bool // the client asked for TLS in the clear before the other side spoke
	hello  bool // the client said a ClientHello before the other side spoke
}

// protocol is what b, the first bytes of the other side, looks like. What the endpoint's own protocol allows counts as that; for the others
// the bytes must leave no doubt, since the words of these protocols overlap: PostgreSQL's 'R' is the length of a MySQL greeting.
func (e expectation) protocol(b []byte) profiler.Protocol {
	switch {
	case len(b) == 0:
		return profiler.ProtocolUnknown
	case strings.HasPrefix(string(b), "HTTP"): // the drivers of MongoDB read no further
		return profiler.ProtocolHTTP
	case strings.HasPrefix(string(b), "SSH-"):
		return profiler.ProtocolSSH
	case e.hello && tlsRecordBegins(b) && len(b) >= recordHeaderSize, answersInTLS(b):
		return profiler.ProtocolTLS
	case e.system == "mysql" && mysqlBegins(b), mysqlBegins(b) && (mysqlVersionBegins(b[5:]) || mysqlErrorCode(b) != 0):
		return profiler.ProtocolMySQL
	case e.asked && e.system != "mysql" && postgresAnswer(b[0]), e.asks("postgresql") && len(b) >= 5 && postgresBegins(b):
		return profiler.ProtocolPostgreSQL
	case !e.hello && len(b) == 16 && mongoBegins(b):
		return profiler.ProtocolMongoDB
	}
	return profiler.ProtocolOther
}

// asks reports whether the client may have sent a request in the clear that only a server of this system answers.
func (e expectation) asks(system string) bool {
	return !e.hello && (e.system == system || e.system == "")
}

// mismatch reports whether b is not how a server of the system may begin, as far as b goes. It is false for a system that is not known.
func (e expectation) mismatch(b []byte) bool {
	own, known := map[string]profiler.Protocol{
		"mysql": profiler.ProtocolMySQL, "postgresql": profiler.ProtocolPostgreSQL, "mongodb": profiler.ProtocolMongoDB,
	}[e.system]
	if !known || len(b) == 0 {
		return false
	}
	if e.hello {
		own = profiler.ProtocolTLS
	}
	switch p := e.protocol(b); {
	case p != own && p != profiler.ProtocolOther:
		return true
	case e.system == "mysql": // the server speaks first, a packet with number 0
		return len(b) >= 4 && b[3] != 0 || len(b) >= 5 && !mysqlBegins(b)
	case e.hello: // an alert, if not a ServerHello
		return !tlsRecordBegins(b)
	case e.system == "mongodb":
		return !mongoBegins(b)
	case e.asked:
		return !postgresAnswer(b[0])
	}
	return !postgresBegins(b)
}

// answersInTLS reports whether b leaves no doubt that it is an answer in TLS: an alert in the clear, or a ServerHello.
func answersInTLS(b []byte) bool {
	if len(b) <= recordHeaderSize || !tlsRecordBegins(b) {
		return false
	}
	return b[0] == recordAlert && b[3] == 0 && b[4] == 2 || b[0] == recordHandshake && b[recordHeaderSize] == messageServerHello
}

// tlsRecordBegins reports whether b may be the beginning of a record (RFC 8446 §5.1).
func tlsRecordBegins(b []byte) bool {
	if len(b) < recordHeaderSize {
		return b[0] >= recordChangeCipherSpec && b[0] <= recordHeartbeat && (len(b) < 2 || b[1] == 3)
	}
	var r recordWalker
	copy(r.header[:], b)
	return r.headerOK()
}

const (
	mysqlProtocol10  = 10
	mysqlErrorPacket = 0xff
)

// mysqlBegins reports whether b begins with a packet that is a greeting or, as far as it goes, an error.
func mysqlBegins(b []byte) bool {
	if len(b) < 5 || b[3] != 0 {
		return false
	}
	return b[4] == mysqlProtocol10 || b[4] == mysqlErrorPacket && (len(b) < 7 || mysqlErrorCode(b) != 0)
}

// mysqlVersionBegins reports whether b begins like "8.0.36" or "10.11.6".
func mysqlVersionBegins(b []byte) bool {
	return len(b) >= 3 && digit(b[0]) && (b[1] == '.' || digit(b[1])) && (b[2] == '.' || digit(b[2]))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// mysqlErrorCode is the number in an error packet that begins with b, 0 if it is none: the numbers that servers send have four digits.
func mysqlErrorCode(b []byte) uint16 {
	if len(b) < 7 || b[4] != mysqlErrorPacket {
		return 0
	}
	if n := binary.LittleEndian.Uint16(b[5:]); n >= 1000 && n <= 9999 {
		return n
	}
	return 0
}

// postgresAnswer reports whether c may answer an SSLRequest or a GSSENCRequest (protocol §55.2.10, §55.2.11); E is an error's beginning.
func postgresAnswer(c byte) bool { return c == 'S' || c == 'N' || c == 'G' || c == 'E' }

// postgresBegins reports whether b may be the beginning of what answers a startup: a request to authenticate, an error, a notice, or
// NegotiateProtocolVersion (protocol §55.7).
func postgresBegins(b []byte) bool {
	if b[0] != 'R' && b[0] != 'E' && b[0] != 'N' && b[0] != 'v' {
		return false
	}
	const longest = 30000 // as libpq bounds them
	n := uint32(8)
	if len(b) >= 5 {
		n = binary.BigEndian.Uint32(b[1:])
	}
	return n >= 8 && n <= longest
}

// mongoBegins reports whether b may be the beginning of a message: its length up to the 48 MB of the drivers, at the end of its header
// one of the opcodes of a reply.
func mongoBegins(b []byte) bool {
	if len(b) < 4 {
		return true
	}
	if n := binary.LittleEndian.Uint32(b); n < 16 || n > 48_000_000+1<<20 {
		return false
	}
	if len(b) < 16 {
		return true
	}
	const reply, compressed, msg = 1, 2012, 2013
	op := binary.LittleEndian.Uint32(b[12:])
	return op == reply || op == compressed || op == msg
}

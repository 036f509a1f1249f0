package handshake

import (
	"encoding/binary"

	"github.com/connprof/connprof/profiler"
)

// postgresMessages reads the server's messages of a login in the clear, up to ReadyForQuery or an error: how it is to be made, SCRAM's
// iterations, the SQLSTATE of an error (protocol §55.7). It takes any split of the input and keeps no part of a message: salts, nonces and
// the key for cancel requests pass by.
type postgresMessages struct {
	header [5]byte
	have   int    // bytes of the header
	left   int    // bytes of the body to come
	at     int    // bytes of the body seen
	code   uint32 // of an authentication request
	step   fieldStep
	digits uint32
	over   bool

	method     profiler.AuthMethod
	iterations uint32
	sqlstate   [5]byte
	state      int  // characters of it seen
	failed     bool // a whole error was seen
}

// fieldStep says where in a field of an error or an attribute of a SCRAM message the next byte stands.
type fieldStep uint8

const (
	fieldName fieldStep = iota
	fieldEquals
	fieldWanted
	fieldOther
)

func (p *postgresMessages) read(b []byte) {
	for len(b) > 0 && !p.over {
		if p.have < len(p.header) {
			n := copy(p.header[p.have:], b)
			p.have += n
			b = b[n:]
			if p.have < len(p.header) {
				return
			}
			const longest = 1 << 20
			size := binary.BigEndian.Uint32(p.header[1:])
			if size < 4 || size > longest || p.header[0] == 'Z' {
				p.over = true
				return
			}
			p.left, p.at, p.code, p.step, p.digits = int(size)-4, 0, 0, fieldName, 0
		}
		n := min(p.left, len(b))
		if t := p.header[0]; t == 'R' || t == 'E' {
			for _, c := range b[:n] {
				if t == 'R' {
					p.authentication(c)
				} else {
					p.errorField(c)
				}
				p.at++
			}
		}
		p.left -= n
		b = b[n:]
		if p.left == 0 {
			p.have = 0
			p.message()
		}
	}
}

// failure is the error that ended the login, if its code is one.
func (p *postgresMessages) failure() profiler.ServerError {
	e := profiler.ServerError{State: p.sqlstate}
	if !p.failed || e.SQLState() == "" {
		return profiler.ServerError{}
	}
	return e
}

// The authentication requests (protocol §55.7, Authentication…).
const (
	authOK           = 0
	authCleartext    = 3
	authMD5          = 5
	authGSS          = 7
	authSSPI         = 9
	authSASL         = 10
	authSASLContinue = 11
)

// authentication takes the next byte of an authentication request: its code, of SASL's the first mechanism's first letter, of the
// server-first-message the attribute i (RFC 5802 §7: r=…,s=…,i=4096).
func (p *postgresMessages) authentication(c byte) {
	switch {
	case p.at < 4:
		p.code = p.code<<8 | uint32(c)
	case p.code == authSASL && p.at == 4:
		p.method = profiler.AuthOther // such as OAUTHBEARER
		if c == 'S' {
			p.method = profiler.AuthSCRAM
		}
	case p.code == authSASLContinue && p.method == profiler.AuthSCRAM:
		switch {
		case c == ',':
			p.endAttribute()
		case p.step == fieldName && c == 'i':
			p.step = fieldEquals
		case p.step == fieldEquals && c == '=':
			p.step = fieldWanted
		case p.step == fieldWanted && digit(c) && p.digits < 100_000_000:
			p.digits = 10*p.digits + uint32(c-'0')
		default:
			p.step = fieldOther
		}
	}
}

func (p *postgresMessages) endAttribute() {
	if p.step == fieldWanted {
		p.iterations = p.digits
	}
	p.step = fieldName
}

// errorField takes the next byte of an error: fields of a type and a text that ends in NUL; the type C is the SQLSTATE (protocol §55.8).
func (p *postgresMessages) errorField(c byte) {
	switch {
	case p.step == fieldName:
		p.step, p.state = fieldOther, 0
		if c == 'C' {
			p.step = fieldWanted
		}
	case c == 0:
		p.step = fieldName
	case p.step == fieldWanted && p.state < len(p.sqlstate):
		p.sqlstate[p.state] = c
		p.state++
	}
}

// message takes the end of a message.
func (p *postgresMessages) message() {
	switch p.header[0] {
	case 'E':
		p.over, p.failed = true, true
	case 'R':
		switch p.code {
		case authOK:
			if p.method == profiler.AuthUnknown && p.at == 4 {
				p.method = profiler.AuthNothing
			}
		case authCleartext:
			p.method = profiler.AuthPassword
		case authMD5:
			p.method = profiler.AuthMD5
		case authGSS:
			p.method = profiler.AuthGSS
		case authSSPI:
			p.method = profiler.AuthSSPI
		case authSASLContinue:
			p.endAttribute()
		}
	}
}

package handshake

import (
	"encoding/binary"

	"github.com/connprof/connprof/profiler"
)

// mysqlPackets reads the server's answers to a login in the clear: the OK packet that accepts it, the error that refuses it, and which way
// it took. Each packet has a 4-byte header, its first byte tells: 0x00 OK, 0xff error, 0xfe another plugin, 0x01 more data (MySQL
// internals, "Connection Phase"). It takes any split of the input and keeps the first bytes of one packet.
type mysqlPackets struct {
	header [4]byte
	have   int // bytes of the header
	left   int // bytes of the payload to come
	kept   [40]byte
	n      int // bytes in kept
	over   bool

	login   loginResponse
	answer  bool // the server said something
	plugin  string
	changed bool // the server asked for another plugin, which is in plugin
	path    profiler.AuthPath
	err     profiler.ServerError
}

// accepted takes the next bytes and reports whether they hold the OK.
func (p *mysqlPackets) accepted(b []byte) bool {
	for len(b) > 0 && !p.over {
		if p.left == 0 {
			n := copy(p.header[p.have:], b)
			p.have += n
			b = b[n:]
			if p.have < len(p.header) {
				return false
			}
			p.have, p.n = 0, 0
			p.left = int(p.header[0]) | int(p.header[1])<<8 | int(p.header[2])<<16
			continue
		}
		n := min(p.left, len(b))
		p.n += copy(p.kept[p.n:], b[:n])
		p.left -= n
		b = b[n:]
		p.answer = true
		if p.kept[0] == 0 {
			p.over = true
			return true
		}
		if p.left == 0 {
			p.packet(p.kept[:p.n])
		}
	}
	return false
}

// packet takes the beginning of a whole packet other than OK.
func (p *mysqlPackets) packet(b []byte) {
	switch b[0] {
	case 0xff:
		p.over = true
		p.err = errorPacket(b)
	case 0xfe: // AuthSwitchRequest; without a name it asks for the method before 4.1
		name, _, ended := cutNUL(b[1:])
		p.changed, p.plugin = true, string(name)
		if !ended && len(b) > 1 || len(b) == 1 {
			p.plugin = "?"
		}
	case 0x01: // AuthMoreData
		if p.method() == profiler.AuthCachingSHA2 && len(b) == 2 {
			switch b[1] {
			case 3:
				p.path = profiler.AuthFast
			case 4:
				p.path = profiler.AuthFull
			}
		}
	}
}

// method is how the login was made: with the plugin that the server changed to, else with the client's own choice.
func (p *mysqlPackets) method() profiler.AuthMethod {
	switch {
	case !p.answer:
		return profiler.AuthUnknown
	case p.changed:
		return profiler.AuthPlugin(p.plugin)
	}
	return profiler.AuthPlugin(p.login.plugin())
}

// errorPacket reads an error packet's payload: 0xff, the number, and from protocol 4.1 on "#" and the SQLSTATE.
func errorPacket(b []byte) (e profiler.ServerError) {
	if len(b) < 3 {
		return e
	}
	e.Code = binary.LittleEndian.Uint16(b[1:])
	if len(b) >= 9 && b[3] == '#' {
		copy(e.State[:], b[4:9])
	}
	if e.SQLState() == "" {
		e.State = [5]byte{}
	}
	return e
}

func cutNUL(b []byte) (before, after []byte, found bool) {
	for i, c := range b {
		if c == 0 {
			return b[:i], b[i+1:], true
		}
	}
	return b, nil, false
}

// loginResponse finds the name of the plugin in the client's HandshakeResponse41. It takes any split of the input, and keeps that name alone:
// user, answer to the challenge and database pass by.
type loginResponse struct {
	at    int // bytes seen, the packet's header included
	caps  uint32
	field loginField
	skip  int // bytes of the answer to come
	size  int // bytes of its length to come
	name  [32]byte
	n     int
	whole bool // the name has ended
}

type loginField uint8

const (
	loginFixed loginField = iota
	loginUser
	loginAnswerSize
	loginAnswer
	loginAnswerNUL
	loginDatabase
	loginPlugin
	loginOver
)

const (
	clientConnectWithDB    = 1 << 3
	clientProtocol41       = 1 << 9
	clientSecureConnection = 1 << 15
	clientPluginAuth       = 1 << 19
	clientPluginLenenc     = 1 << 21

	loginFixedSize = 4 + 4 + 4 + 1 + 23 // header, capabilities, largest packet, charset, filler
)

func (l *loginResponse) plugin() string {
	if !l.whole {
		return ""
	}
	return string(l.name[:l.n])
}

func (l *loginResponse) wrote(b []byte) {
	for _, c := range b {
		if l.field == loginOver {
			return
		}
		l.take(c)
	}
}

func (l *loginResponse) take(c byte) {
	switch l.field {
	case loginFixed:
		if i := l.at - 4; i >= 0 && i < 4 {
			l.caps |= uint32(c) << (8 * i)
		}
		if l.at++; l.at == loginFixedSize {
			l.field = loginUser
			if l.caps&clientProtocol41 == 0 || l.caps&clientPluginAuth == 0 {
				l.field = loginOver
			}
		}
	case loginUser:
		if c == 0 {
			l.field = loginAnswerNUL
			if l.caps&(clientPluginLenenc|clientSecureConnection) != 0 {
				l.field = loginAnswerSize
			}
		}
	case loginAnswerSize:
		switch {
		case l.size > 0: // of 2 bytes, little endian
			l.size--
			l.skip |= int(c) << (8 * (1 - l.size))
		case l.caps&clientPluginLenenc != 0 && c == 0xfc:
			l.size = 2
		case l.caps&clientPluginLenenc != 0 && c > 0xfc: // no answer is as long
			l.field = loginOver
			return
		default:
			l.skip = int(c)
		}
		if l.size == 0 {
			l.answered(l.skip == 0)
		}
	case loginAnswer:
		l.skip--
		l.answered(l.skip == 0)
	case loginAnswerNUL:
		l.answered(c == 0)
	case loginDatabase:
		if c == 0 {
			l.field = loginPlugin
		}
	case loginPlugin:
		switch {
		case c == 0:
			l.whole, l.field = true, loginOver
		case l.n == len(l.name):
			l.field = loginOver
		default:
			l.name[l.n] = c
			l.n++
		}
	}
}

// answered goes on to what follows the answer to the challenge, if that is over.
func (l *loginResponse) answered(over bool) {
	switch {
	case !over && l.field == loginAnswerSize:
		l.field = loginAnswer
	case over && l.caps&clientConnectWithDB != 0:
		l.field = loginDatabase
	case over:
		l.field = loginPlugin
	}
}

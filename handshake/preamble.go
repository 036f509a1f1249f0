package handshake

import "bytes"

// greeting collects the first bytes that a server sends before the client said anything but a request for TLS. It recognises MySQL's
// protocol 10 (packet header, 10, the version up to a NUL), and keeps no more than the version.
type greeting struct {
	buf     []byte
	mysql   bool
	done    bool
	version string
}

// maxGreeting bounds what is kept of a greeting while its version is looked for.
const maxGreeting = 128

func (g *greeting) read(b []byte) {
	if g.done {
		return
	}
	g.buf = append(g.buf, b[:min(len(b), maxGreeting-len(g.buf))]...)
	if len(g.buf) < 5 {
		return
	}
	if g.buf[3] != 0 || g.buf[4] != 10 {
		g.done, g.buf = true, nil
		return
	}
	g.mysql = true
	if i := bytes.IndexByte(g.buf[5:], 0); i >= 0 {
		g.version = printable(g.buf[5 : 5+i])
		g.done, g.buf = true, nil
	} else if len(g.buf) >= maxGreeting {
		g.done, g.buf = true, nil
	}
}

// printable keeps what a version consists of, so that a strange server can't put control characters into a report.
func printable(b []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, b))
}

// mysqlPackets finds, in a server's answers to a login in the clear, the OK packet that accepts it. Each packet has a 4-byte header,
// its first byte tells: 0x00 OK, 0xff error, 0xfe another plugin, 0x01 more data (MySQL internals, "Connection Phase"). It takes any
// split of the input.
type mysqlPackets struct {
	header [4]byte
	have   int // bytes of the header
	left   int // bytes of the payload to come
	first  bool
	over   bool
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
			p.have = 0
			p.left = int(p.header[0]) | int(p.header[1])<<8 | int(p.header[2])<<16
			p.first = true
			continue
		}
		if p.first {
			p.first = false
			switch b[0] {
			case 0x00:
				p.over = true
				return true
			case 0xff:
				p.over = true
				return false
			}
		}
		n := min(p.left, len(b))
		p.left -= n
		b = b[n:]
	}
	return false
}

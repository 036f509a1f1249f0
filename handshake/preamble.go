package handshake

import (
	"bytes"

	"github.com/connprof/connprof/profiler"
)

// greeting collects the first bytes that a server sends before the client said anything but a request for TLS. It recognises MySQL's
// protocol 10 (packet header, 10, the version up to a NUL) and an error packet in its place, and keeps no more than the version or the error's
// number.
type greeting struct {
	buf     []byte
	mysql   bool
	done    bool
	version string
	err     profiler.ServerError
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
	if g.buf[3] != 0 || g.buf[4] != mysqlProtocol10 {
		const numberAndState = 4 + 9
		end := min(4+(int(g.buf[0])|int(g.buf[1])<<8|int(g.buf[2])<<16), numberAndState)
		packet := g.buf[:min(len(g.buf), end)]
		if mysqlBegins(packet) && len(packet) < end {
			return
		}
		if mysqlErrorCode(packet) != 0 && packet[3] == 0 {
			g.err = errorPacket(packet[4:])
		}
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

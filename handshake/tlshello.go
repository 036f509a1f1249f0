package handshake

import (
	"bytes"
	"crypto/tls"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// Types of handshake message that say something in the clear (RFC 8446 §4, RFC 5246 §7.4). The rest are skipped by length.
const (
	messageClientHello        = 1
	messageServerHello        = 2  // a HelloRetryRequest too
	messageNewSessionTicket   = 4  // RFC 5077 §3.3
	messageCertificate        = 11 // RFC 5246 §7.4.2; in TLS 1.3 encrypted
	messageServerKeyExchange  = 12 // RFC 8422 §5.4
	messageCertificateRequest = 13 // RFC 5246 §7.4.4
)

// Extensions that are read (RFC 8446 §4.2 holds the list).
const (
	extensionServerName        = 0  // RFC 6066 §3
	extensionSupportedGroups   = 10 // §4.2.7
	extensionALPN              = 16 // RFC 7301 §3.1
	extensionSessionTicket     = 35 // RFC 5077 §3.2
	extensionPreSharedKey      = 41
	extensionEarlyData         = 42
	extensionSupportedVersions = 43
	extensionPSKModes          = 45
	extensionKeyShare          = 51
)

const (
	messageHeaderSize = 4

	// helloMax bounds a ClientHello or ServerHello. Real ones have 100 to 2,000 bytes.
	helloMax = 64 << 10

	// keyExchangeKept is what is kept of a ServerKeyExchange: the curve type, the group and the length of the point.
	keyExchangeKept = 4

	// alpnMax bounds the offered protocols that are kept.
	alpnMax = 16
)

// messageReader puts handshake messages together from fragments: several messages may share a record and one may span many (RFC 8446
// §5.1). It keeps one hello, or the first bytes of a ServerKeyExchange, and nothing of any other message: certificates pass unread.
type messageReader struct {
	header [messageHeaderSize]byte
	have   int    // bytes of the header seen so far
	left   int    // bytes of the body still to come, once the header is whole
	body   []byte // what is kept of the body; grows with what came, not with what the header promises
}

// next takes from b the rest of the message in progress. It returns what follows it and whether the message is now complete; until
// the next call, and while b stands, messageType, size and body speak of that message. Each call takes at least one byte of a b that is not empty.
func (m *messageReader) next(b []byte) (rest []byte, complete bool) {
	if m.have == messageHeaderSize && m.left == 0 { // the message before this one is complete
		m.have, m.body = 0, nil
	}
	if m.have < messageHeaderSize {
		n := copy(m.header[m.have:], b)
		m.have += n
		b = b[n:]
		if m.have < messageHeaderSize {
			return nil, false
		}
		m.left = m.size() - messageHeaderSize
	}
	n := min(m.left, len(b))
	if keep := min(n, m.wanted()-len(m.body)); keep > 0 {
		if n == m.left && len(m.body) == 0 {
			m.body = b[:keep:keep] // whole, as it nearly always is: no copy
		} else {
			m.body = append(m.body, b[:keep]...)
		}
	}
	m.left -= n
	return b[n:], m.left == 0
}

func (m *messageReader) wanted() int {
	switch m.messageType() {
	case messageClientHello, messageServerHello:
		return helloMax
	case messageServerKeyExchange:
		return keyExchangeKept
	}
	return 0
}

// known reports whether the header of the message in progress is whole, so that messageType and size may be asked.
func (m *messageReader) known() bool { return m.have == messageHeaderSize }

// partial reports whether a message has begun and is not complete.
func (m *messageReader) partial() bool {
	return m.have > 0 && (m.have < messageHeaderSize || m.left > 0)
}

func (m *messageReader) messageType() byte { return m.header[0] }

// size is that of the whole message, its header included.
func (m *messageReader) size() int {
	return messageHeaderSize + int(m.header[1])<<16 + int(m.header[2])<<8 + int(m.header[3])
}

// clientHello is what a ClientHello says in the clear. Behind an encrypted ClientHello (RFC 9849) stands another one, with another
// server name, that can't be read.
type clientHello struct {
	serverName string
	alpn       []string
	groups     profiler.Groups
	shares     profiler.Groups // the groups that it sends a key for
	tickets    bool            // asks for session tickets
	resumes    bool            // offers to resume a session
	earlyData  bool            // 0-RTT records follow at once
}

// parseClientHello reads the body of a ClientHello (RFC 8446 §4.1.2, RFC 5246 §7.4.1.2).
//
// A session counts as offered with a pre_shared_key extension (TLS 1.3) or a session_ticket extension that is not empty (RFC 5077
// §3.2). The session id says nothing: TLS 1.3 fills it for middleboxes (RFC 8446 §D.4), a client with tickets fills it to recognise
// acceptance (RFC 5077 §3.4), and crypto/tls fills it always.
func parseClientHello(body []byte) (h clientHello, ok bool) {
	f := tlsFields{b: body}
	f.take(2 + 32) // legacy_version, random
	f.vector8()    // legacy_session_id
	f.vector16()   // cipher_suites
	f.vector8()    // legacy_compression_methods
	f.extensions(func(id int, x *tlsFields) {
		switch id {
		case extensionServerName:
			for names := x.vector16(); names.more(); {
				const hostName = 0
				if kind, name := names.uint8(), names.vector16(); kind == hostName && h.serverName == "" {
					h.serverName = string(name.b)
				}
				x.bad = x.bad || names.bad
			}
		case extensionSupportedGroups:
			for groups := x.vector16(); groups.more(); {
				h.groups = h.groups.With(tls.CurveID(groups.uint16()))
				x.bad = x.bad || groups.bad
			}
		case extensionKeyShare: // RFC 8446 §4.2.8
			for shares := x.vector16(); shares.more(); {
				h.shares = h.shares.With(tls.CurveID(shares.uint16()))
				shares.vector16()
				x.bad = x.bad || shares.bad
			}
		case extensionALPN:
			for protocols := x.vector16(); protocols.more(); {
				if p := protocols.vector8(); len(h.alpn) < alpnMax {
					h.alpn = append(h.alpn, string(p.b))
				}
				x.bad = x.bad || protocols.bad
			}
		case extensionSessionTicket:
			h.tickets = true
			h.resumes = h.resumes || len(x.b) > 0
		case extensionPSKModes: // RFC 8446 §4.2.9: without it a server of TLS 1.3 has no use for tickets
			h.tickets = true
		case extensionPreSharedKey:
			h.resumes = true
		case extensionEarlyData:
			h.earlyData = true
		}
	})
	return h, f.ended()
}

// serverHello is what a ServerHello or a HelloRetryRequest says.
type serverHello struct {
	version uint16
	cipher  uint16
	group   tls.CurveID // 0 without a key share: TLS 1.2 and older, or a key from the session alone
	retry   bool        // it is a HelloRetryRequest
	psk     bool        // the server took the offered session, TLS 1.3
}

// helloRetryRandom is the random of a ServerHello that is a HelloRetryRequest: SHA-256 of "HelloRetryRequest" (RFC 8446 §4.1.3).
var helloRetryRandom = []byte("\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91" +
	"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c")

// parseServerHello reads the body of a ServerHello (RFC 8446 §4.1.3, RFC 5246 §7.4.1.3).
func parseServerHello(body []byte) (h serverHello, ok bool) {
	f := tlsFields{b: body}
	h.version = uint16(f.uint16())
	random := f.take(32)
	f.vector8() // legacy_session_id_echo
	h.cipher = uint16(f.uint16())
	f.uint8() // legacy_compression_method
	f.extensions(func(id int, x *tlsFields) {
		switch id {
		case extensionSupportedVersions: // RFC 8446 §4.2.1: only TLS 1.3 answers with it, and then it overrides legacy_version
			h.version = uint16(x.uint16())
		case extensionKeyShare: // a group with its share, or the group alone in a HelloRetryRequest (RFC 8446 §4.2.8)
			h.group = tls.CurveID(x.uint16())
		case extensionPreSharedKey:
			h.psk = true
		}
	})
	h.retry = h.version == tls.VersionTLS13 && bytes.Equal(random, helloRetryRandom)
	return h, f.ended()
}

// keyExchangeGroup is the group in the first bytes of a ServerKeyExchange, 0 if it has none. Only the cipher suite tells ECDHE from
// finite-field DHE, whose message begins with the length of a prime; crypto/tls names every ECDHE suite that it can negotiate.
func keyExchangeGroup(cipher uint16, body []byte) tls.CurveID {
	const namedCurve = 3 // RFC 8422 §5.4, ECCurveType
	if len(body) < keyExchangeKept || body[0] != namedCurve || !strings.Contains(tls.CipherSuiteName(cipher), "_ECDHE_") {
		return 0
	}
	return tls.CurveID(body[1])<<8 | tls.CurveID(body[2])
}

// tlsFields takes the fields of a TLS structure (RFC 8446 §3) from b one by one. Where b is too short it yields zeros from then on and
// bad is set: one look at the end is enough.
type tlsFields struct {
	b   []byte
	bad bool
}

func (f *tlsFields) take(n int) []byte {
	if f.bad || n > len(f.b) {
		f.b, f.bad = nil, true
		return nil
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

func (f *tlsFields) uint8() int {
	if v := f.take(1); v != nil {
		return int(v[0])
	}
	return 0
}

func (f *tlsFields) uint16() int {
	if v := f.take(2); v != nil {
		return int(v[0])<<8 | int(v[1])
	}
	return 0
}

func (f *tlsFields) vector8() tlsFields  { n := f.uint8(); return tlsFields{b: f.take(n), bad: f.bad} }
func (f *tlsFields) vector16() tlsFields { n := f.uint16(); return tlsFields{b: f.take(n), bad: f.bad} }

func (f *tlsFields) more() bool  { return !f.bad && len(f.b) > 0 }
func (f *tlsFields) ended() bool { return !f.bad && len(f.b) == 0 }

// extensions calls each with every extension of the block that ends a hello. Before TLS 1.3 the block may be absent (RFC 5246
// §7.4.1.2). A body that each finds too short makes f bad; one that it does not read to its end does not.
func (f *tlsFields) extensions(each func(id int, body *tlsFields)) {
	if !f.more() {
		return
	}
	for block := f.vector16(); block.more(); {
		id := block.uint16()
		body := block.vector16()
		if !block.bad {
			each(id, &body)
		}
		if body.bad || block.bad {
			f.bad = true
			return
		}
	}
}

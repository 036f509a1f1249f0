package handshake

import (
	"crypto/tls"

	"github.com/connprof/connprof/profiler"
)

// tlsWatch follows one TLS handshake from below, both directions. It is fed the bytes that crypto/tls writes and reads, in any
// fragments, and never holds more than one hello of them. Not safe for concurrent use: the conn holds a mutex.
//
// What it claims depends on the bytes and their order alone. How they were cut into writes and reads moves only the times. BytesIn and
// BytesOut count whole records for that reason: those complete when the handshake ended. In TLS 1.3 that includes a ticket which the
// server sent right after its Finished (RFC 8446 §4.6.1), if the client had read it by then.
//
// Where the handshake ends:
//   - TLS 1.0 to 1.2: when both Finished are seen. Each is the handshake record after its side's ChangeCipherSpec. In the full
//     handshake the server's is the last (RFC 5246 §7.3, figure 1), in the abbreviated one the client's (figure 2, RFC 5077 §3.1).
//   - TLS 1.3: with the client's Finished (RFC 8446 §2). It is encrypted, but its size is known: the flight ends with the first
//     protected client record after the ServerHello that has the size of a Finished. A record of another size holds a client's
//     Certificate or CertificateVerify. Should the client put all three messages into one record, none has the size of a Finished;
//     that shows with the next server record, and the flight then ended with its first record that was not full.
//   - With an alert: the handshake failed, and there is no end.
//
// Known limits, none of which crypto/tls as a client reaches: a client that pads its records (RFC 8446 §5.4) looks like one with a
// certificate; 0-RTT data still on its way after the ServerHello that is as large as a Finished, or as an alert, is taken for it; and
// where a server may speak between the pieces of a client's flight, the flight ends there.
type tlsWatch struct {
	state     watchState
	out, in   watchSide // what the client wrote, and what it read
	facts     profiler.TLSInfo
	began     profiler.Instant // where the tls phase begins; see start
	firstByte profiler.Instant // entry of the write of the first byte
	helloRead profiler.Instant // return of the read that completed the last ServerHello
	endedAt   profiler.Instant

	hellos     int  // complete ClientHellos
	negotiated bool // the ServerHello came that is not a HelloRetryRequest
	earlyData  bool // the ClientHello announced 0-RTT data

	flight struct { // TLS 1.3: the client's last flight, where it did not begin with a Finished
		begun, ended bool
		at           profiler.Instant // return of the write that completed its last record
		bytesOut     int64            // BytesOut with that record
	}
	settledLate, refusedLate bool // see afterRead
}

// watchState says how far the watcher is; every state but watching is final.
type watchState uint8

const (
	watching  watchState = iota
	completed            // the handshake ended well
	failed               // an alert ended it
	lost                 // the bytes are not TLS as known
)

// watchSide is what is known of one direction.
type watchSide struct {
	records   recordWalker
	messages  messageReader
	alert     [2]byte // level and description of the alert record in progress
	alerted   int     // bytes of alert seen so far
	full      bool    // the record before this one was full: this one may be the tail of a message
	protected bool    // its ChangeCipherSpec was seen; up to TLS 1.2 only, where it means something
	finished  bool    // its Finished was seen; up to TLS 1.2 only
}

// start says where the tls phase begins: the end of the I/O before the ClientHello, because building one is part of the handshake.
func (w *tlsWatch) start(at profiler.Instant) { w.began = at }

// wrote takes the bytes of one Write of the client, its entry and its return. b is not kept. It returns what b holds beyond the end of
// the handshake. After done it does nothing.
func (w *tlsWatch) wrote(b []byte, entry, ret profiler.Instant) (rest []byte) {
	if !w.firstByte.Known() && len(b) > 0 {
		w.firstByte = entry
	}
	return w.feed(&w.out, b, ret)
}

// read takes the bytes of one Read of the client, its entry and its return. b is not kept. What b holds beyond the end of the
// handshake goes where afterRead would take it.
func (w *tlsWatch) read(b []byte, _, ret profiler.Instant) {
	w.afterRead(w.feed(&w.in, b, ret))
}

// done reports whether the handshake ended, well or not, or the watcher gave up.
func (w *tlsWatch) done() bool { return w.state != watching }

// gaveUp reports whether the bytes were not TLS as known. What info holds by then was seen; nothing is claimed beyond it.
func (w *tlsWatch) gaveUp() bool { return w.state == lost }

// ended is the end of phase tls: the return of the Write that carried the client's Finished (TLS 1.3; resumed before it), or of the
// Read that held the server's (TLS 1.2 and older, full). It is zero until then, and stays zero for a handshake that failed or was
// lost from sight: such a phase ends when the create does.
func (w *tlsWatch) ended() profiler.Instant { return w.endedAt }

// helloWritten is the entry of the Write that carried the first byte of the first ClientHello; zero if none did.
func (w *tlsWatch) helloWritten() profiler.Instant {
	if !w.facts.Seen {
		return 0
	}
	return w.firstByte
}

// serverHello is the return of the Read that completed the last ServerHello (a HelloRetryRequest is one); zero if none came.
func (w *tlsWatch) serverHello() profiler.Instant { return w.helloRead }

// info returns the facts seen so far, all but HelloWritten and ServerHello, which the caller makes from helloWritten and serverHello.
// Tickets is never likely: below TLS, an unasked record and a reply in two records look the same.
func (w *tlsWatch) info() profiler.TLSInfo {
	t := w.facts
	if t.Resumed {
		t.ResumptionOffered = true // the server can only accept what was offered (in TLS 1.2, by session id too)
		t.Tickets = profiler.TicketsYes
	}
	return t
}

// feed walks the records in b and returns what is left of b once the watcher is done.
func (w *tlsWatch) feed(side *watchSide, b []byte, ret profiler.Instant) (rest []byte) {
	for len(b) > 0 && w.state == watching {
		payload, rest, complete, ok := side.records.next(b)
		if !ok {
			w.stop(lost)
			return nil
		}
		w.payload(side, payload, ret)
		if complete && w.state == watching {
			w.record(side, ret)
		}
		b = rest
	}
	return b
}

// payload takes the next part of the payload of the record in progress.
func (w *tlsWatch) payload(side *watchSide, b []byte, ret profiler.Instant) {
	switch side.records.contentType() {
	case recordAlert:
		side.keepAlert(b)
	case recordHandshake:
		if side.protected {
			return // a Finished, which record recognises
		}
		for len(b) > 0 && w.state == watching {
			rest, complete := side.messages.next(b)
			if side.messages.known() && !w.expected(side) {
				w.stop(lost)
				return
			}
			if complete {
				w.message(side, ret)
			}
			b = rest
		}
	}
}

// expected reports whether the plaintext message in progress may come here.
func (w *tlsWatch) expected(side *watchSide) bool {
	if w.tls13() {
		return false // RFC 8446 §2: from here on all is protected
	}
	switch m := &side.messages; m.messageType() {
	case messageClientHello:
		if side == &w.in || w.negotiated || m.size() > helloMax || w.hellos != w.hellosDue()-1 {
			return false
		}
		w.facts.Seen = true
		return true
	case messageServerHello:
		return side == &w.in && !w.negotiated && m.size() <= helloMax && w.hellos == w.hellosDue() && !w.out.messages.partial()
	}
	return w.negotiated // no other message comes before the hellos
}

// hellosDue is how many ClientHellos come before the ServerHello (RFC 8446 §4.1.4).
func (w *tlsWatch) hellosDue() int {
	if w.facts.HelloRetry {
		return 2
	}
	return 1
}

// message takes a complete plaintext message.
func (w *tlsWatch) message(side *watchSide, ret profiler.Instant) {
	m := &side.messages
	defer func() { m.body = nil }()
	switch m.messageType() {
	case messageClientHello:
		w.hellos++
		if w.hellos > 1 {
			return // the first one's facts stand: the second repeats it, less what the server refused (RFC 8446 §4.1.2)
		}
		w.facts.HelloSize = int32(m.size())
		h, ok := parseClientHello(m.body)
		if !ok {
			w.stop(lost)
			return
		}
		w.earlyData = h.earlyData
		w.facts.ServerName, w.facts.ALPN, w.facts.TicketsAsked, w.facts.ResumptionOffered = h.serverName, h.alpn, h.tickets, h.resumes
		w.facts.GroupsOffered, w.facts.KeyShares = h.groups, h.shares
	case messageServerHello:
		h, ok := parseServerHello(m.body)
		if !ok || h.version < tls.VersionTLS10 || h.version > tls.VersionTLS13 || h.retry && w.facts.HelloRetry {
			w.stop(lost)
			return
		}
		w.helloRead = ret
		w.facts.Version, w.facts.Cipher = h.version, h.cipher
		if h.retry {
			w.facts.HelloRetry = true
			return
		}
		w.negotiated = true
		if w.tls13() {
			w.facts.Group, w.facts.Resumed = h.group, h.psk // RFC 8446 §4.2.8, §4.2.11
		}
	case messageCertificate:
		if side == &w.in {
			w.facts.CertificateBytes = int32(m.size())
		}
	case messageServerKeyExchange:
		if side == &w.in {
			w.facts.Group = keyExchangeGroup(w.facts.Cipher, m.body)
		}
	case messageCertificateRequest:
		if side == &w.in {
			w.facts.ClientCert = true
		}
	case messageNewSessionTicket:
		if side == &w.in {
			w.facts.Tickets = profiler.TicketsYes
		}
	}
}

// tls13 reports whether TLS 1.3 is in use: protected records follow, whatever their outer type says.
func (w *tlsWatch) tls13() bool { return w.negotiated && w.facts.Version == tls.VersionTLS13 }

// record takes the end of a complete record.
func (w *tlsWatch) record(side *watchSide, ret profiler.Instant) {
	contentType, size := side.records.contentType(), side.records.length()
	tail := side.full
	side.full = false
	switch {
	case contentType != recordAlert && side == &w.in && w.hellos == 0,
		contentType != recordHandshake && side == &w.out && w.hellos == 0,
		contentType != recordHandshake && contentType != recordAlert && side.messages.partial():
		// The client speaks first, with a ClientHello that nothing interrupts (RFC 8446 §5.1). A server may refuse it early.
		w.stop(lost)
		return
	case contentType == recordApplicationData && !w.negotiated:
		// RFC 8446 §4.2.10: 0-RTT data, which is no part of the handshake. The server has none.
		if side == &w.in || !w.earlyData {
			w.stop(lost)
		}
		return
	case contentType == recordApplicationData && !w.tls13():
		// RFC 7918: a client may send data before it has the server's Finished. It is no part of the handshake either.
		if side == &w.in || !side.protected {
			w.stop(lost)
		}
		return
	case contentType == recordApplicationData:
		side.full = size >= recordPlaintextMax
		if side == &w.out {
			w.clientProtected(size, tail, ret)
		} else {
			w.serverProtected(size, tail)
		}
		return
	}

	w.count(side)
	switch contentType {
	case recordChangeCipherSpec:
		// TLS 1.3 sends it for middleboxes only (RFC 8446 §D.4), and after a HelloRetryRequest before the version is settled: it
		// means nothing until a ServerHello chose an older version.
		if !w.negotiated || w.tls13() {
			return
		}
		if side == &w.in && !w.out.protected {
			w.facts.Resumed = true // RFC 5246 §7.3, figure 2: in the abbreviated handshake the server's comes first
		}
		side.protected = true
	case recordHandshake:
		if !side.protected || size == 0 {
			return
		}
		side.finished = true // RFC 5246 §7.4.9: always immediately after the ChangeCipherSpec
		if w.in.finished && w.out.finished {
			w.complete(ret)
		}
	case recordAlert:
		w.alert(side, size)
	}
}

// count adds the record just completed to the handshake's bytes.
func (w *tlsWatch) count(side *watchSide) {
	n := int64(recordHeaderSize + side.records.length())
	if side == &w.out {
		w.facts.BytesOut += n
	} else {
		w.facts.BytesIn += n
	}
}

// complete ends a handshake that went well.
func (w *tlsWatch) complete(at profiler.Instant) {
	w.facts.Done, w.endedAt = true, at
	w.stop(completed)
}

// stop ends the watching and lets go of the hellos.
func (w *tlsWatch) stop(s watchState) {
	w.state = s
	w.in.messages, w.out.messages = messageReader{}, messageReader{}
}

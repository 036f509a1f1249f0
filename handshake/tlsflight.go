package handshake

import (
	"crypto/tls"

	"github.com/connprof/connprof/profiler"
)

// protectedSizes returns the payload sizes of an alert and of a Finished that are alone in a TLS 1.3 record without padding: the
// content, one byte of content type and the tag of the cipher suite (RFC 8446 §5.2, §B.4). finished is 0 where the suite's hash is
// not known.
func protectedSizes(cipher uint16) (alert, finished int) {
	const (
		aes128CCM  = 0x1304
		aes128CCM8 = 0x1305 // RFC 6655 §4: a tag of 8 bytes
	)
	hash, tag := 0, 16
	switch cipher {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_CHACHA20_POLY1305_SHA256, aes128CCM:
		hash = 32
	case aes128CCM8:
		hash, tag = 32, 8
	case tls.TLS_AES_256_GCM_SHA384:
		hash = 48
	default:
		return 2 + 1 + tag, 0
	}
	return 2 + 1 + tag, messageHeaderSize + hash + 1 + tag // RFC 8446 §6, §4.4.4
}

// clientProtected takes a protected TLS 1.3 record of the client after the ServerHello: a part of its last flight (RFC 8446 §2), or
// the alert with which it refuses the server's. tail says that the record may be the end of a message longer than a record.
func (w *tlsWatch) clientProtected(size int, tail bool, ret profiler.Instant) {
	alert, finished := protectedSizes(w.facts.Cipher)
	switch {
	case size == alert && !tail:
		w.count(&w.out)
		w.facts.AlertEncrypted, w.facts.AlertSent = true, true
		w.stop(failed)
		return
	case w.earlyData && w.facts.Resumed && size != finished:
		// RFC 8446 §2.3: 0-RTT data goes on until the client has the server's Finished, and ends with an EndOfEarlyData of 21 bytes.
		// A handshake from a session has no client certificate (§4.3.2), so none of these can be one.
		return
	}
	w.count(&w.out)
	w.facts.AlertEncrypted = false // the client goes on: what looked like the server's alert was the tail of a message
	if size == finished && !tail || finished == 0 {
		w.complete(ret)
		return
	}
	w.facts.ClientCert = true // RFC 8446 §4.4.2: asked for one, the client sends a Certificate, if only an empty one
	if !w.flight.ended {
		w.flight.begun, w.flight.ended = true, !w.out.full
		w.flight.at, w.flight.bytesOut = ret, w.facts.BytesOut
	}
}

// serverProtected takes a protected TLS 1.3 record of the server.
func (w *tlsWatch) serverProtected(size int, tail bool) {
	if w.flight.begun {
		// The server speaks after the client's flight, in which no record had the size of a Finished: it was inside another one.
		w.facts.BytesOut = w.flight.bytesOut
		w.complete(w.flight.at)
		w.late(size)
		return
	}
	w.count(&w.in)
	// An alert, if nothing follows it. A fragment of two bytes looks the same, but the handshake goes on after that.
	alert, _ := protectedSizes(w.facts.Cipher)
	const enough = 1 << 30                                     // where counting stops
	if !w.facts.Resumed && w.facts.CertificateBytes < enough { // RFC 8446 §4.2.11: a handshake from a session has no certificate
		w.facts.CertificateBytes += int32(max(0, size-(alert-2)))
		w.facts.CertificateAtMost = true
	}
	w.facts.AlertEncrypted = size == alert && !tail
}

const (
	alertLevelFatal   = 2 // RFC 8446 §6
	alertCloseNotify  = 0
	alertUserCanceled = 90
)

// keepAlert takes the next part of the payload of an alert record: level and description are its first two bytes (RFC 8446 §6).
func (s *watchSide) keepAlert(b []byte) {
	s.alerted += copy(s.alert[s.alerted:], b)
}

// takeAlert returns the alert in a record of the given size that is now complete. ok is false if it is encrypted, or not an alert.
func (s *watchSide) takeAlert(size int) (level, description uint8, ok bool) {
	ok = s.alerted == len(s.alert) && (!s.protected || size == len(s.alert))
	s.alerted = 0
	return s.alert[0], s.alert[1], ok
}

// alert takes a complete record whose outer type is alert. In TLS 1.3 that means plaintext (RFC 8446 §5.2 hides the type of a
// protected one); in older versions it is encrypted after the side's ChangeCipherSpec, and its size says so.
func (w *tlsWatch) alert(side *watchSide, size int) {
	level, description, ok := side.takeAlert(size)
	switch {
	case ok && w.endsWith(level, description):
		if description != alertCloseNotify || w.facts.Alert == 0 {
			w.facts.Alert, w.facts.AlertSent = description, side == &w.out
		}
		w.stop(failed)
	case ok:
		w.facts.Alert, w.facts.AlertSent = description, side == &w.out // a warning: seen, and the handshake may go on
	case side.protected:
		w.facts.AlertEncrypted, w.facts.AlertSent = true, side == &w.out
		w.stop(failed)
	}
}

// endsWith reports whether a plaintext alert ends the handshake. A close_notify does at any level. In TLS 1.3 so does every other
// but user_canceled (RFC 8446 §6); in older versions, and before the version is known, the level decides (RFC 5246 §7.2).
func (w *tlsWatch) endsWith(level, description uint8) bool {
	return level == alertLevelFatal || description == alertCloseNotify || w.tls13() && description != alertUserCanceled
}

// afterRead takes the bytes of a Read after done, until settled. It reports whether the server refused the handshake after all,
// which in TLS 1.3 it can only say when the client has finished (RFC 8446 §4.4.2.4, §6.2): its first record after the client's
// Finished is an alert, and either that is in the clear, or it is encrypted, which its size tells, and the client's flight held a
// Certificate. Without a Certificate such a record is more likely to be a connection that closes: not claimed. The answer stays.
// After a refusal info holds the alert as sent by the server.
func (w *tlsWatch) afterRead(b []byte) (refused bool) {
	for len(b) > 0 && w.state == completed && !w.settledLate {
		payload, rest, complete, ok := w.in.records.next(b)
		if !ok {
			w.settledLate = true
			break
		}
		if w.in.records.contentType() == recordAlert {
			w.in.keepAlert(payload)
		}
		if complete {
			w.late(w.in.records.length())
		}
		b = rest
	}
	return w.refusedLate
}

// afterWrite takes the bytes of a Write after the handshake ended well, up to the header of a record, and reports whether it is one that
// carries something of the application's. An alert does not: a close_notify is not a request that anyone answers (RFC 8446 §6.1). rest is
// what follows that record or its beginning. What is no record at all counts as the application's.
func (w *tlsWatch) afterWrite(b []byte) (application bool, rest []byte) {
	r := &w.out.records
	_, rest, _, ok := r.next(b)
	switch {
	case !ok:
		return true, nil
	case r.have < recordHeaderSize:
		return false, nil
	}
	alert, _ := protectedSizes(w.facts.Cipher)
	return r.contentType() != recordAlert && !(w.tls13() && r.length() == alert), rest
}

// atRecord reports whether the next byte of a Write after the handshake is the first of a record.
func (w *tlsWatch) atRecord() bool {
	r := &w.out.records
	return r.have == 0 || r.have == recordHeaderSize && r.left == 0
}

// settled reports whether the watcher has learnt all it can: it is done and needs no afterRead any more.
func (w *tlsWatch) settled() bool {
	return w.state == failed || w.state == lost || w.state == completed && w.settledLate
}

// late classifies a complete server record after the end of the handshake, the first that is not a ChangeCipherSpec.
func (w *tlsWatch) late(size int) {
	switch w.in.records.contentType() {
	case recordChangeCipherSpec:
		return // RFC 8446 §5: dropped without a look, at any time up to the peer's Finished
	case recordApplicationData:
		alert, _ := protectedSizes(w.facts.Cipher)
		if w.tls13() && w.facts.ClientCert && size == alert {
			w.facts.AlertEncrypted, w.facts.AlertSent = true, false
			w.refusedLate = true
		}
	case recordAlert:
		level, description, ok := w.in.takeAlert(size)
		if ok && description != alertCloseNotify && w.endsWith(level, description) {
			w.facts.Alert, w.facts.AlertSent = description, false
			w.refusedLate = true
		}
	}
	w.settledLate = true
}

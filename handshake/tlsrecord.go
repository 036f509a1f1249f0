package handshake

// Content types of a TLS record (RFC 8446 §5.1, RFC 5246 §6.2.1).
const (
	recordChangeCipherSpec = 20
	recordAlert            = 21
	recordHandshake        = 22
	recordApplicationData  = 23
	recordHeartbeat        = 24 // RFC 6520 §3
)

const (
	recordHeaderSize = 5

	// recordPlaintextMax is the largest payload before protection (RFC 8446 §5.1); a message longer than that goes on in the next record.
	recordPlaintextMax = 1 << 14

	// recordPayloadMax is the largest payload on the wire: 2^14+2048 up to TLS 1.2 (RFC 5246 §6.2.3), 2^14+256 in TLS 1.3 (RFC 8446 §5.2).
	recordPayloadMax = recordPlaintextMax + 2048
)

// recordWalker finds the record boundaries of one direction in arbitrary fragments of its byte stream. It holds five bytes of header
// and never the payload. The zero recordWalker stands before the first record.
type recordWalker struct {
	header [recordHeaderSize]byte
	have   int // bytes of the header seen so far
	left   int // bytes of the payload still to come, once the header is whole
}

// next takes from b the rest of the header in progress and as much of the payload as b holds. It returns that part of the payload,
// what follows it, and whether the record is now complete; contentType and length speak of that record until the next call. ok is
// false if the header is not one of TLS; then the walker is of no use any more. Each call takes at least one byte of a b that is not
// empty, so a loop over rest ends.
func (r *recordWalker) next(b []byte) (payload, rest []byte, complete, ok bool) {
	if r.have == recordHeaderSize && r.left == 0 { // the record before this one is complete
		r.have = 0
	}
	if r.have < recordHeaderSize {
		n := copy(r.header[r.have:], b)
		r.have += n
		b = b[n:]
		if r.have < recordHeaderSize {
			return nil, nil, false, true
		}
		if !r.headerOK() {
			return nil, nil, false, false
		}
		r.left = r.length()
	}
	n := min(r.left, len(b))
	r.left -= n
	return b[:n], b[n:], r.left == 0, true
}

// contentType is the outer type of the record whose header was seen last.
func (r *recordWalker) contentType() byte { return r.header[0] }

// length is the size of that record's payload, as its header says.
func (r *recordWalker) length() int { return int(r.header[3])<<8 | int(r.header[4]) }

// headerOK tells a record header from other bytes. The record's version says nothing about the version in use (RFC 8446 §5.1,
// legacy_record_version), but its major number has been 3 since SSL 3.0.
func (r *recordWalker) headerOK() bool {
	return r.header[0] >= recordChangeCipherSpec && r.header[0] <= recordHeartbeat &&
		r.header[1] == 3 && r.header[2] <= 4 && r.length() <= recordPayloadMax
}

// looksLikeClientHello reports whether b, the first bytes that a client writes in this protocol, begin a TLS handshake: the header of
// a handshake record and the type of a ClientHello, "16 03 0x .. .. 01". Fewer than six bytes can't be told from a preamble: false.
func looksLikeClientHello(b []byte) bool {
	if len(b) <= recordHeaderSize || b[recordHeaderSize] != messageClientHello {
		return false
	}
	var r recordWalker
	copy(r.header[:], b)
	return r.contentType() == recordHandshake && r.headerOK() && r.length() > 0 && r.length() <= recordPlaintextMax
}

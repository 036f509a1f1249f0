package handshake

import "testing"

// FuzzRecords: no bytes make the walker panic or stand still, and every split finds the same boundaries.
func FuzzRecords(f *testing.F) {
	f.Add(join(plain(hello()), changeCipherSpec(), protected(53)), uint8(3))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"), uint8(1))
	f.Add([]byte{23, 3, 3, 0x48, 1, 0}, uint8(5))
	type seen struct {
		ends  [64]int // positions after the first complete records
		n     int
		valid bool
	}
	walk := func(t *testing.T, b []byte, size int) (s seen) {
		var r recordWalker
		for at := 0; at < len(b); {
			piece := b[at:min(at+size, len(b))]
			for len(piece) > 0 {
				payload, rest, complete, ok := r.next(piece)
				if !ok {
					return s
				}
				took := len(piece) - len(rest)
				if took == 0 || len(payload) > took || len(payload) > r.length() {
					t.Fatalf("took %d of %d bytes, %d of them payload of %d", took, len(piece), len(payload), r.length())
				}
				at += took
				if complete && s.n < len(s.ends) {
					s.ends[s.n] = at
					s.n++
				}
				piece = rest
			}
		}
		s.valid = true
		return s
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		if len(b) == 0 {
			return
		}
		if whole, pieces := walk(t, b, len(b)), walk(t, b, max(1, int(size))); whole != pieces {
			t.Fatalf("whole %+v, in pieces of %d %+v", whole, size, pieces)
		}
	})
}

package handshake

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// Builders of the words that databases say in the clear.

func mysqlPacket(seq byte, payload ...byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)
}

func mysqlGreeting() []byte {
	return mysqlPacket(0, slices.Concat([]byte{10}, []byte("5.7.0-scripted\x00"), make([]byte, 60))...)
}

func mysqlSSLRequest() []byte {
	return mysqlPacket(1, append([]byte{0x00, 0xaa, 0x08, 0x00}, make([]byte, 28)...)...)
}

func mysqlLogin(seq byte) []byte {
	return mysqlPacket(seq, append([]byte{0x00, 0xa2, 0x08, 0x00}, make([]byte, 60)...)...)
}

func mysqlOK(seq byte) []byte { return mysqlPacket(seq, 0, 0, 0, 2, 0, 0, 0) }
func mysqlError(seq byte) []byte {
	return mysqlPacket(seq, append([]byte{0xff, 0x15, 0x04}, "#28000Access denied"...)...)
}
func mysqlQuery(text string) []byte { return mysqlPacket(0, append([]byte{3}, text...)...) }
func mysqlQuit() []byte             { return mysqlPacket(0, 1) }

func postgresSSLRequest() []byte { return []byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f} }
func postgresStartup() []byte {
	body := "\x00\x03\x00\x00user\x00app\x00\x00"
	return append(binary.BigEndian.AppendUint32(nil, uint32(4+len(body))), body...)
}

func mongoMessage(n int) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(16+n)), make([]byte, 12+n)...)
}

func TestFirstWordsAreToldApart(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		want word
		at   int // the byte that decides, counted from 1
	}{
		{"MySQL's request for TLS", mysqlSSLRequest(), tlsRequest, 36},
		{"PostgreSQL's request for TLS", postgresSSLRequest(), tlsRequest, 8},
		{"PostgreSQL's request for GSS encryption", []byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30}, tlsRequest, 8},
		{"a ClientHello", plain(hello()), tlsBegins, 6},
		{"MySQL's login", mysqlLogin(1), otherWord, 1},
		{"a MySQL packet of that size without CLIENT_SSL", mysqlPacket(1, make([]byte, 32)...), otherWord, 36},
		{"PostgreSQL's startup", postgresStartup(), otherWord, 4},
		{"PostgreSQL's cancel request", []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}, otherWord, 4},
		{"an unknown PostgreSQL code", []byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x31}, otherWord, 8},
		{"a MongoDB message", mongoMessage(100), otherWord, 1},
		{"a MongoDB message of 288 bytes", mongoMessage(272), otherWord, 2},
		{"another TLS message", []byte{22, 3, 1, 0, 40, 2}, otherWord, 6},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), otherWord, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for size := 1; size <= len(tt.b); size++ {
				var f firstWords
				said, took := undecided, 0
				for b := tt.b; len(b) > 0 && said == undecided; {
					piece := b[:min(size, len(b))]
					b = b[len(piece):]
					var rest []byte
					said, rest = f.add(piece, 1, 2, 3)
					took += len(piece) - len(rest)
				}
				if said != tt.want || took != tt.at || f.n != tt.at {
					t.Fatalf("in pieces of %d: word %d after %d bytes, want %d after %d", size, said, took, tt.want, tt.at)
				}
			}
		})
	}
}

// FuzzFirstWords: no bytes make it panic, it decides within the longest request, and for every split alike.
func FuzzFirstWords(f *testing.F) {
	for _, b := range [][]byte{mysqlSSLRequest(), postgresSSLRequest(), plain(hello()), mysqlLogin(1), mongoMessage(20)} {
		f.Add(b, uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		var whole, pieces firstWords
		want, rest := whole.add(b, 1, 2, 3)
		decided := len(b) - len(rest)
		if want == undecided && len(b) >= mysqlRequestSize || decided > mysqlRequestSize {
			t.Fatalf("word %d after %d of %d bytes", want, decided, len(b))
		}
		got, took := undecided, 0
		for left := b; len(left) > 0 && got == undecided; {
			piece := left[:min(max(1, int(size)), len(left))]
			left = left[len(piece):]
			var rest []byte
			got, rest = pieces.add(piece, 1, 2, 3)
			took += len(piece) - len(rest)
		}
		if got != want || took != decided {
			t.Fatalf("in pieces of %d: word %d after %d bytes, want %d after %d", size, got, took, want, decided)
		}
	})
}

func TestAGreetingShowsTheServersVersion(t *testing.T) {
	for _, tt := range []struct {
		name, b, version string
		mysql            bool
	}{
		{"MySQL's", string(mysqlGreeting()), "5.7.0-scripted", true},
		{"a version with control characters", "\x40\x00\x00\x00\x0a8.0\x1b[31m\n\x00", "8.0[31m", true},
		{"a version without end", "\x40\x01\x00\x00\x0a" + strings.Repeat("8", 400), "", true},
		{"an error instead", tooMany, "", false},
		{"PostgreSQL's S", "S", "", false},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n", "", false},
	} {
		for size := 1; size <= len(tt.b); size++ {
			var g greeting
			for b := []byte(tt.b); len(b) > 0; b = b[min(size, len(b)):] {
				g.read(b[:min(size, len(b))])
			}
			if g.version != tt.version || g.mysql != tt.mysql || len(g.buf) > maxGreeting {
				t.Fatalf("%s in pieces of %d: %+v", tt.name, size, g)
			}
		}
	}
}

const tooMany = "\x17\x00\x00\x00\xff\x10\x04Too many connections"

func TestAnErrorInPlaceOfAGreetingShowsItsNumber(t *testing.T) {
	for _, tt := range []struct{ name, b, code, state string }{
		{"too many connections", tooMany, "1040", ""},
		{"with an SQLSTATE", string(mysqlPacket(0, append([]byte{0xff, 0x69, 0x04}, "#HY000Host is blocked"...)...)), "1129", "HY000"},
		{"a number alone", "\x03\x00\x00\x00\xff\x10\x04", "1040", ""},
		{"half a number", "\x03\x00\x00\x00\xff\x10", "", ""},
		{"a packet too short for a number", "\x00\x00\x00\x00\xff\x10\x04", "", ""},
		{"a packet with half a number", "\x02\x00\x00\x00\xff\x10\x04", "", ""},
		{"a packet too short for an SQLSTATE", "\x08\x00\x00\x00\xff\x69\x04#HY000", "1129", ""},
		{"a number that no server sends", "\x17\x00\x00\x00\xff\xff\xffToo many connections", "", ""},
		{"of another packet than the first", "\x17\x00\x00\x01\xff\x10\x04Too many connections", "", ""},
		{"an SQLSTATE that is none", string(mysqlPacket(0, append([]byte{0xff, 0x69, 0x04}, "#\x1b[31mHost"...)...)), "1129", ""},
	} {
		for size := 1; size <= len(tt.b); size++ {
			var g greeting
			for b := []byte(tt.b); len(b) > 0; b = b[min(size, len(b)):] {
				g.read(b[:min(size, len(b))])
			}
			if g.err.String() != tt.code || g.err.SQLState() != tt.state || g.mysql {
				t.Fatalf("%s in pieces of %d: %v %q, MySQL's greeting: %v", tt.name, size, g.err, g.err.SQLState(), g.mysql)
			}
		}
	}
}

// FuzzGreeting: no bytes make it panic, and every split gives the same.
func FuzzGreeting(f *testing.F) {
	f.Add(mysqlGreeting(), uint8(7))
	f.Add([]byte("S"), uint8(1))
	f.Add([]byte(tooMany), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		var whole, pieces greeting
		whole.read(b)
		for left := b; len(left) > 0; {
			n := min(max(1, int(size)), len(left))
			pieces.read(left[:n])
			left = left[n:]
		}
		if whole.version != pieces.version || whole.mysql != pieces.mysql || whole.err != pieces.err || len(whole.version) > maxGreeting {
			t.Fatalf("whole %+v, in pieces of %d %+v", whole, size, pieces)
		}
	})
}

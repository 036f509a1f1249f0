package handshake

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/connprof/connprof/profiler"
)

func postgresMessage(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

func postgresAuth(code byte, rest string) []byte {
	return postgresMessage('R', "\x00\x00\x00"+string(code)+rest)
}

func TestAPostgreSQLLoginInTheClearShowsItsMethod(t *testing.T) {
	ready := postgresMessage('Z', "I")
	sasl := postgresAuth(authSASL, "SCRAM-SHA-256\x00\x00")
	first := func(s string) []byte { return postgresAuth(authSASLContinue, s) }
	denied := postgresMessage('E', "SFATAL\x00VFATAL\x00C28P01\x00Mpassword authentication failed for user \"C57014\"\x00\x00")
	for _, tt := range []struct {
		name       string
		b          []byte
		method     profiler.AuthMethod
		iterations uint32
		err        string
		over       bool
	}{
		{"nothing yet", nil, profiler.AuthUnknown, 0, "", false},
		{"nothing is asked", slices.Concat(postgresAuth(authOK, ""), postgresMessage('K', "secretss"), ready), profiler.AuthNothing, 0, "", true},
		{"a password in the clear", postgresAuth(authCleartext, ""), profiler.AuthPassword, 0, "", false},
		{"md5", slices.Concat(postgresAuth(authMD5, "salt"), postgresAuth(authOK, ""), ready), profiler.AuthMD5, 0, "", true},
		{"Kerberos", postgresAuth(authGSS, ""), profiler.AuthGSS, 0, "", false},
		{"Windows", postgresAuth(authSSPI, ""), profiler.AuthSSPI, 0, "", false},
		{"SCRAM", slices.Concat(sasl, first("r=i=77,s=aT0xMg==,i=4096"), postgresAuth(12, "v=i=3"), postgresAuth(authOK, ""), ready),
			profiler.AuthSCRAM, 4096, "", true},
		{"SCRAM with an extension", slices.Concat(sasl, first("m=i=9,r=x,s=y,i=15000,ext=i=7")), profiler.AuthSCRAM, 15000, "", false},
		{"iterations that are no number", slices.Concat(sasl, first("r=x,s=y,i=40x6")), profiler.AuthSCRAM, 0, "", false},
		{"iterations beyond all measure", slices.Concat(sasl, first("r=x,s=y,i="+strings.Repeat("9", 30))), profiler.AuthSCRAM, 0, "", false},
		{"the beginning of iterations", slices.Concat(sasl, first("r=x,s=y,i=4096")[:21]), profiler.AuthSCRAM, 0, "", false},
		{"a mechanism of another kind", postgresAuth(authSASL, "OAUTHBEARER\x00\x00"), profiler.AuthOther, 0, "", false},
		{"a wrong password", slices.Concat(sasl, denied), profiler.AuthSCRAM, 0, "28P01", true},
		{"refused at once", denied, profiler.AuthUnknown, 0, "28P01", true},
		{"an error without a code", postgresMessage('E', "SFATAL\x00\x00"), profiler.AuthUnknown, 0, "", true},
		{"an error whose code is none", postgresMessage('E', "C28\x1b01\x00\x00"), profiler.AuthUnknown, 0, "", true},
		{"a mechanism of another kind goes on", slices.Concat(postgresAuth(authSASL, "OAUTHBEARER\x00\x00"), first("i=4096")),
			profiler.AuthOther, 0, "", false},
		{"most of an error", denied[:40], profiler.AuthUnknown, 0, "", false},
		{"half an error", denied[:18], profiler.AuthUnknown, 0, "", false},
		{"settings and a notice", slices.Concat(postgresMessage('N', "C01000\x00\x00"), postgresMessage('S', "a\x00b\x00"), ready),
			profiler.AuthUnknown, 0, "", true},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request"), profiler.AuthUnknown, 0, "", true},
		{"an impossible size", []byte("R\x00\x00\x00\x03"), profiler.AuthUnknown, 0, "", true},
	} {
		for size := 1; size <= max(1, len(tt.b)); size++ {
			var p postgresMessages
			for b := tt.b; len(b) > 0; b = b[min(size, len(b)):] {
				p.read(b[:min(size, len(b))])
			}
			if err := p.failure(); p.method != tt.method || p.iterations != tt.iterations || err.String() != tt.err || p.over != tt.over {
				t.Fatalf("%s in pieces of %d: by %v, %d iterations, error %q, over %v", tt.name, size, p.method, p.iterations, err, p.over)
			}
		}
	}
}

// FuzzPostgresMessages: no bytes make it panic, and every split gives the same.
func FuzzPostgresMessages(f *testing.F) {
	f.Add(slices.Concat(postgresAuth(authSASL, "SCRAM-SHA-256\x00\x00"), postgresAuth(authSASLContinue, "r=x,s=y,i=4096"), postgresAuth(authOK, "")), uint8(3))
	f.Add(postgresMessage('E', "SFATAL\x00C28P01\x00\x00"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		var whole, pieces postgresMessages
		whole.read(b)
		for left := b; len(left) > 0; left = left[min(max(1, int(size)), len(left)):] {
			pieces.read(left[:min(max(1, int(size)), len(left))])
		}
		if whole.method != pieces.method || whole.iterations != pieces.iterations || whole.failure() != pieces.failure() || whole.over != pieces.over {
			t.Fatalf("whole %+v, in pieces of %d %+v", whole, size, pieces)
		}
	})
}

package handshake

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// openings are the first bytes of servers, by protocol.
func openings() map[profiler.Protocol][][]byte {
	version := func(v string) []byte {
		return mysqlPacket(0, slices.Concat([]byte{10}, []byte(v+"\x00\x01\x00\x00\x00"), make([]byte, 50))...)
	}
	return map[profiler.Protocol][][]byte{
		profiler.ProtocolMySQL: {mysqlGreeting(), version("8.0.36"), version("11.4.2-MariaDB"), []byte(tooMany)},
		profiler.ProtocolPostgreSQL: {postgresAuth(authSASL, "SCRAM-SHA-256\x00\x00"), postgresAuth(authOK, ""), postgresAuth(authMD5, "salt"),
			postgresMessage('E', "SFATAL\x00VFATAL\x00C53300\x00Msorry, too many clients already\x00\x00"),
			postgresMessage('E', "SFATAL\x00VFATAL\x00C53300\x00"+string(make([]byte, 255-4-21)))},
		profiler.ProtocolMongoDB: {mongoReply(2013), mongoReply(1), mongoReply(2012)},
		profiler.ProtocolTLS:     {alertRecord(2, 10), plain(hello12())},
		profiler.ProtocolHTTP:    {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n")},
		profiler.ProtocolSSH:     {[]byte("SSH-2.0-OpenSSH_9.2\r\n")},
		profiler.ProtocolOther:   {[]byte("220 mail.example ESMTP\r\n"), []byte("-ERR unknown command"), []byte("J"), {0}},
	}
}

func mongoReply(op uint16) []byte {
	b := mongoMessage(50)
	binary.LittleEndian.PutUint16(b[12:], op)
	return b
}

func TestTheFirstBytesTellWhoSpeaks(t *testing.T) {
	systems := map[string]profiler.Protocol{
		"mysql": profiler.ProtocolMySQL, "postgresql": profiler.ProtocolPostgreSQL, "mongodb": profiler.ProtocolMongoDB, "": profiler.ProtocolUnknown,
	}
	speaksFirst := func(p profiler.Protocol) bool {
		return p != profiler.ProtocolPostgreSQL && p != profiler.ProtocolMongoDB
	}
	for system, own := range systems {
		for speaks, all := range openings() {
			for _, b := range all {
				e := expectation{system: system}
				var o opening
				at := 0 // the first byte that tells of a mismatch, counted from 1
				for i := range b {
					o.read(b[i : i+1])
					if m := e.mismatch(o.said()); m && at == 0 {
						at = i + 1
					} else if !m && at != 0 {
						t.Fatalf("%q to a client of %q: a mismatch at %d, none at %d", b, system, at, i+1)
					}
				}
				want := speaks
				if system != "" && speaks != own && !speaksFirst(speaks) { // it answers its own clients only
					want = profiler.ProtocolOther
				}
				if got := e.protocol(o.said()); got != want && (got != speaks || speaks != profiler.ProtocolMongoDB) {
					t.Errorf("%q to a client of %q: %v, want %v", b, system, got, want)
				}
				// A few bytes may also be the beginning of something longer.
				if want := system != "" && speaks != own; (at != 0) != want && len(b) >= len(o.b) {
					t.Errorf("%q to a client of %q: a mismatch at %d", b, system, at)
				}
			}
		}
	}
}

func TestTheAnswerToARequestForTLSTellsWhoSpeaks(t *testing.T) {
	for _, tt := range []struct {
		e        expectation
		b        string
		want     profiler.Protocol
		mismatch bool
	}{
		{expectation{system: "postgresql", asked: true}, "S", profiler.ProtocolPostgreSQL, false},
		{expectation{system: "postgresql", asked: true}, "N", profiler.ProtocolPostgreSQL, false},
		{expectation{system: "postgresql", asked: true}, "S\x16\x03\x03\x00\x5a\x02", profiler.ProtocolPostgreSQL, false},
		{expectation{system: "postgresql", asked: true}, "E", profiler.ProtocolPostgreSQL, false},
		{expectation{system: "postgresql", asked: true}, "H", profiler.ProtocolOther, true},
		{expectation{system: "postgresql", asked: true}, "J", profiler.ProtocolOther, true}, // the length of a MySQL greeting
		{expectation{system: "postgresql", asked: true}, "SSH-2.0-Ope", profiler.ProtocolSSH, true},
		{expectation{system: "postgresql", hello: true}, "\x16\x03\x03\x00\x5a\x02", profiler.ProtocolTLS, false},
		{expectation{system: "postgresql", hello: true}, "HTTP/1.1 400", profiler.ProtocolHTTP, true},
		{expectation{system: "mongodb", hello: true}, "\x15\x03\x01\x00\x02\x02", profiler.ProtocolTLS, false},
		{expectation{system: "mongodb", hello: true}, string(mysqlGreeting()[:16]), profiler.ProtocolMySQL, true},
		{expectation{system: "mongodb", hello: true}, "R", profiler.ProtocolOther, true},
		{expectation{system: "mongodb"}, "\x15\x03\x01\x00\x02\x02", profiler.ProtocolTLS, true},
		{expectation{system: "mongodb"}, "\x52\x00\x00\x00\x0a\x30\x00\x00\x05", profiler.ProtocolOther, false},
		{expectation{system: "mongodb"}, "\x52\x00\x00\x00\x0a\x30\x00\x00\x05\x00\x00\x00\xdd\x07\x00\x00", profiler.ProtocolMongoDB, false},
		{expectation{}, "\x52\x00\x00\x00\x0a\x00\x00\x00\x05", profiler.ProtocolPostgreSQL, false},
		{expectation{system: "mongodb"}, "", profiler.ProtocolUnknown, false},
		{expectation{system: "mysql"}, "\x4a\x00\x00\x01", profiler.ProtocolOther, true}, // the second packet
		{expectation{system: "mysql"}, "HTT", profiler.ProtocolOther, false},
		{expectation{system: "mysql"}, "\x4a\x00\x00\x00\x0aProxy 1", profiler.ProtocolMySQL, false},
		{expectation{system: "postgresql"}, "\x4a\x00\x00\x00\x0aProxy 1", profiler.ProtocolOther, true},
	} {
		if got, m := tt.e.protocol([]byte(tt.b)), tt.e.mismatch([]byte(tt.b)); got != tt.want || m != tt.mismatch {
			t.Errorf("%q, expected %+v: %v, mismatch %v; want %v, %v", tt.b, tt.e, got, m, tt.want, tt.mismatch)
		}
	}
}

func TestOnlyAFailedCreateMismatches(t *testing.T) {
	flow := flowOf(in([]byte("hello\r\n")), out([]byte("hello yourself\r\n")), in([]byte("bye\r\n")))
	d := &Dialer{Endpoint: profiler.Endpoint{System: "mysql"}}
	for _, err := range []error{nil, errReplay} {
		if m, _ := flow.make(d, err); m.Wire.Mismatch != (err != nil) || m.Wire.Protocol != profiler.ProtocolOther {
			t.Errorf("with error %v: %+v", err, m.Wire)
		}
	}
}

// FuzzOpening: no bytes make it panic, and what is a mismatch stays one.
func FuzzOpening(f *testing.F) {
	for _, all := range openings() {
		for _, b := range all {
			f.Add(b, uint8(1))
		}
	}
	f.Add([]byte("E00\x00\xff"), uint8(4)) // to a client that asked for TLS first, which none of MySQL's does
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		e := expectation{system: []string{"mysql", "postgresql", "mongodb", ""}[kind%4], asked: kind&4 != 0, hello: kind&8 != 0}
		var o opening
		for i, before := 0, false; i < len(b); i++ {
			o.read(b[i : i+1])
			now := e.mismatch(o.said())
			if before && !now {
				t.Fatalf("%+v: %q is a mismatch no more", e, o.said())
			}
			before = now
			e.protocol(o.said())
		}
	})
}

package handshake

import (
	"slices"
	"strings"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// createCase is a whole create, made up.
type createCase struct {
	name, system string
	dialer       func(*Dialer)
	flow         tlsFlow
	err          error
	want         string
	failed       profiler.Phase
	turns        int
}

func (c createCase) d() *Dialer {
	d := &Dialer{Endpoint: profiler.Endpoint{System: c.system}}
	if c.dialer != nil {
		c.dialer(d)
	}
	return d
}

func createCases() []createCase {
	server13 := serverFlight(aes128)
	finished := out(changeCipherSpec(), protected(53))
	mysqlTLS := func(rest ...tlsChunk) tlsFlow {
		return append(tlsFlow{in(mysqlGreeting()), out(mysqlSSLRequest()), out(plain(hello())), server13, finished}, rest...)
	}
	closeNotify := out(protected(19))
	setup1 := func(d *Dialer) { d.SetupTurns = 1; d.LoginError = func(error) bool { return false } }
	return []createCase{
		{name: "MySQL in the clear", system: "mysql", flow: tlsFlow{in(mysqlGreeting()), out(mysqlLogin(1)), in(mysqlOK(2))},
			want: "greet auth", turns: 1},
		{name: "MySQL in the clear with set-up", system: "mysql", flow: tlsFlow{in(mysqlGreeting()), out(mysqlLogin(1)),
			in(mysqlPacket(2, 0xfe, 'x', 0)), out(mysqlPacket(3, 7)), in(mysqlOK(4)), out(mysqlQuery("SET a=1")), in(mysqlOK(1))},
			want: "greet auth setup", turns: 3},
		{name: "MySQL in the clear, set-up refused", system: "mysql", dialer: setup1, flow: tlsFlow{in(mysqlGreeting()), out(mysqlLogin(1)),
			in(mysqlOK(2)), out(mysqlQuery("SET a=1")), in(mysqlError(1)), out(mysqlQuit())}, err: errReplay,
			want: "greet auth setup", failed: profiler.Setup, turns: 2},
		{name: "MySQL under TLS", system: "mysql", flow: mysqlTLS(out(protected(90)), in(protected(250), protected(33))),
			want: "greet tls verify auth", turns: 1},
		{name: "MySQL under TLS with set-up", system: "mysql", dialer: setup1,
			flow: mysqlTLS(out(protected(90)), in(protected(33)), out(protected(40)), in(protected(33))),
			want: "greet tls verify auth setup", turns: 2},
		{name: "MySQL under TLS, set-up refused", system: "mysql", dialer: setup1,
			flow: mysqlTLS(out(protected(90)), in(protected(33)), out(protected(40)), in(protected(60)), out(protected(22)), closeNotify),
			err:  errReplay, want: "greet tls verify auth setup", failed: profiler.Setup, turns: 2},
		{name: "MySQL under TLS, the login is refused", system: "mysql", flow: mysqlTLS(out(protected(90)), in(protected(60)), closeNotify),
			err: errReplay, want: "greet tls verify auth", failed: profiler.Auth, turns: 1},
		{name: "PostgreSQL refuses TLS and goes on", system: "postgresql", flow: tlsFlow{out(postgresSSLRequest()), in([]byte("N")),
			out(postgresStartup()), in(make([]byte, 30))}, want: "greet auth", turns: 1},
		{name: "PostgreSQL under TLS", system: "postgresql", flow: tlsFlow{out(postgresSSLRequest()), in([]byte("S")),
			out(plain(hello())), server13, finished, out(protected(60)), in(protected(40))}, want: "greet tls verify auth", turns: 1},
		{name: "PostgreSQL with TLS at once", system: "postgresql", flow: tlsFlow{out(plain(hello())), server13, finished,
			out(protected(60)), in(protected(40))}, want: "tls verify auth", turns: 1},
		{name: "PostgreSQL in the clear", system: "postgresql", flow: tlsFlow{out(postgresStartup()), in(make([]byte, 30))},
			want: "auth", turns: 1},
		{name: "MongoDB under TLS", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13, finished,
			out(protected(300)), in(protected(400)), out(protected(90)), in(protected(80))}, want: "tls verify hello auth", turns: 2},
		{name: "MongoDB gives up between TLS and hello", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13, finished, closeNotify},
			err: errReplay, want: "tls verify", failed: profiler.Verify},
		{name: "a client certificate is refused late", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13,
			out(protected(900), protected(97), protected(53)), out(protected(300)), in(protected(19))},
			err: errReplay, want: "tls verify hello", failed: profiler.TLS, turns: 1},
		{name: "a client certificate in one record is refused late", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13,
			out(protected(1050)), in(protected(19))}, err: errReplay, want: "tls verify", failed: profiler.TLS},
		{name: "an orderly close after a client certificate was taken", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13,
			out(protected(900), protected(97), protected(53)), out(protected(300)), in(protected(90)), in(protected(19))},
			err: errReplay, want: "tls verify hello", failed: profiler.Hello, turns: 1},
		{name: "an orderly close without a client certificate", system: "mongodb", flow: tlsFlow{out(plain(hello())), server13, finished,
			out(protected(300)), in(protected(19))}, err: errReplay, want: "tls verify hello", failed: profiler.Hello, turns: 1},
		{name: "a protocol nobody knows", flow: tlsFlow{out([]byte("HELLO?")), in([]byte("HI")), out([]byte("WHO?")), in([]byte("ME"))},
			want: "auth", turns: 2},
		{name: "plaintext that only looks like TLS", system: "mongodb", flow: tlsFlow{out(plain(hello())), in([]byte("HTTP/1.1 400 Bad")),
			out([]byte("x")), in([]byte("y"))}, want: ""},
		{name: "the same, and the driver fails", system: "mongodb", flow: tlsFlow{out(plain(hello())), in([]byte("HTTP/1.1 400 Bad")),
			out([]byte("x")), in([]byte("y"))}, err: errReplay, want: "tls", failed: profiler.TLS},
		{name: "TLS 1.2 ends in the read that holds the first answer", system: "mongodb", flow: tlsFlow{out(plain(hello())),
			in(plain(hello12(), tlsMessage(14))), out(changeCipherSpec(), tlsRecord(recordHandshake, make([]byte, 40)...)),
			in(changeCipherSpec(), tlsRecord(recordHandshake, make([]byte, 40)...)), out(protected(300)), in(protected(90))},
			want: "tls verify hello", turns: 1},
		{name: "a first word that is cut off", system: "mysql", flow: tlsFlow{in(mysqlGreeting()), out(mysqlSSLRequest()[:20])},
			err: errReplay, want: "greet auth", failed: profiler.Auth, turns: 1},
		{name: "nothing at all", system: "mongodb", want: ""},
	}
}

func TestAWholeCreateSaysTheSameForEverySplit(t *testing.T) {
	for _, tt := range createCases() {
		t.Run(tt.name, func(t *testing.T) {
			got := checkAnyCreate(t, tt.flow, tt.d(), tt.err, 1)
			if p := strings.Join(got.Phases, " "); p != tt.want || got.Failed != tt.failed || int(got.Wire.Turns) != tt.turns {
				t.Errorf("phases %q, failed in %v, %d turns; want %q, %v, %d", p, got.Failed, got.Wire.Turns, tt.want, tt.failed, tt.turns)
			}
		})
	}
}

// FuzzWatch: no bytes in either direction make the watch of a whole create panic or contradict itself, and every split says the same.
func FuzzWatch(f *testing.F) {
	systems := []string{"mysql", "postgresql", "mongodb", ""}
	for _, c := range createCases() {
		f.Add(c.flow.encode(), uint8(slices.Index(systems, c.system)), int8(c.d().SetupTurns), c.err != nil, uint64(1))
	}
	for _, r := range recordings(f) {
		f.Add(r.flow.encode(), uint8(slices.Index(systems, r.system)), int8(r.setup), r.failed, uint64(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, system uint8, setup int8, fails bool, seed uint64) {
		flow, size := decodeFlow(b), 0
		for _, c := range flow {
			size += len(c.b)
		}
		if size > 32<<10 { // or the replays take so long that few are made
			return
		}
		d := &Dialer{
			Endpoint:   profiler.Endpoint{System: systems[int(system)%len(systems)]},
			SetupTurns: int(setup), LoginError: func(error) bool { return seed%2 == 0 },
		}
		var err error
		if fails {
			err = errReplay
		}
		checkAnyCreate(t, flow, d, err, seed)
	})
}

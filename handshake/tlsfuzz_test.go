package handshake

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"
)

// A flow is encoded for the fuzzer as a row of steps of three bytes: what, and a number. An even first byte stands for so many raw
// bytes, which follow; an odd one for a whole record of the menu, so that mutations stay close to TLS. Bit 1 is the direction.

// menuRecord is a record that a handshake may hold; n is a size or an alert.
func menuRecord(item byte, n uint16) []byte {
	size := []int{int(n) % 2000, 11, 19, 21, 53, 69, 1<<14 + 17}[n>>13%7]
	part := min(1+int(n)%100, len(hello())-1)
	items := []func() []byte{
		func() []byte { return plain(hello()) },
		func() []byte { return plain(offersEarlyData()) },
		func() []byte { return plain(hello()[:part]) },
		func() []byte { return plain(hello()[part:]) },
		func() []byte { return plain(hello12()) },
		func() []byte {
			return plain(hello12(), tlsMessage(messageCertificateRequest), tlsMessage(messageServerKeyExchange, 3, 0, 29, 32))
		},
		func() []byte { return plain(tlsMessage(messageNewSessionTicket, make([]byte, part)...)) },
		func() []byte { return plain(hello13(aes128)) },
		func() []byte { return plain(hello13(aes256)) },
		func() []byte { return plain(acceptsSession(0x1305)) },
		func() []byte { return plain(helloRetryRequest()) },
		func() []byte { return tlsRecord(recordHandshake, make([]byte, size)...) },
		func() []byte { return tlsRecord(recordAlert, make([]byte, size)...) },
		func() []byte { return alertRecord(byte(n>>8), byte(n)) },
		changeCipherSpec,
		changeCipherSpec,
		func() []byte { return protected(size) },
		func() []byte { return protected(size) },
	}
	return items[int(item)%len(items)]()
}

// decodeFlow stops at 256 KiB, or the replays of a row of large records would take seconds.
func decodeFlow(b []byte) (f tlsFlow) {
	for size := 0; len(b) >= 3 && size < 256<<10; {
		what, n := b[0], binary.BigEndian.Uint16(b[1:])
		b = b[3:]
		var piece []byte
		if what&1 != 0 {
			piece = menuRecord(what>>2, n)
		} else {
			piece = b[:min(int(n), len(b))]
			b = b[len(piece):]
		}
		size += len(piece)
		f = append(f, tlsChunk{what&2 != 0, piece, 1, 2})
	}
	return f
}

func (f tlsFlow) encode() (b []byte) {
	for _, c := range f.cut(func() int { return 0xffff }) {
		what := byte(0)
		if c.out {
			what = 2
		}
		b = append(binary.BigEndian.AppendUint16(append(b, what), uint16(len(c.b))), c.b...)
	}
	return b
}

// checkAnyFlow holds for every flow: the watcher says the same for each cut of the bytes, does not contradict itself, and holds no
// more than a hello, and nothing when it is done.
func checkAnyFlow(t *testing.T, flow tlsFlow, seed uint64) tlsSeen {
	t.Helper()
	w, want := flow.watch()
	for name, cut := range flow.cuts(seed) {
		if _, got := cut.watch(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	if held := len(w.in.messages.body) + len(w.out.messages.body); w.done() && held > 0 || held > helloMax+2*keyExchangeKept {
		t.Fatalf("holds %d bytes", held)
	}
	info := want.Info
	if want.HasEnding != info.Done || info.Done && (want.GaveUp || !want.Done) || want.Refused && !info.Done ||
		want.Settled && !want.Done || want.HelloWritten != info.Seen || want.ServerHello && info.Version == 0 ||
		info.Resumed && !info.ResumptionOffered {
		t.Fatalf("contradicts itself: %+v", want)
	}
	return want
}

// FuzzTLSWatch: no bytes make the watcher panic, and checkAnyFlow holds.
func FuzzTLSWatch(f *testing.F) {
	for _, c := range syntheticCases() {
		f.Add(c.flow.encode(), uint64(1))
	}
	menu := func(steps ...byte) { f.Add(steps, uint64(2)) }
	const in, out = 1, 3
	menu(out|0<<2, 0, 0, in|7<<2, 0, 0, in|16<<2, 0, 200, out|14<<2, 0, 0, out|16<<2, 0x80, 0, in|16<<2, 0x40, 0)
	menu(out|0<<2, 0, 0, in|10<<2, 0, 0, in|14<<2, 0, 0, out|0<<2, 0, 0, in|8<<2, 0, 0, out|16<<2, 0, 100, out|16<<2, 0xa0, 0)
	menu(out|0<<2, 0, 0, in|5<<2, 0, 0, out|14<<2, 0, 0, out|11<<2, 0, 40, in|6<<2, 0, 0, in|14<<2, 0, 0, in|11<<2, 0, 40)
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		if len(b) <= 1<<17 {
			checkAnyFlow(t, decodeFlow(b), seed)
		}
	})
}

func TestTLSWatchHoldsForRandomRowsOfRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ends := map[string]int{}
	for range 200 {
		answer := byte(4 + rng.IntN(7))
		likely := []byte{6, 11, 14, 14} // of the menu, up to TLS 1.2
		if answer >= 7 {
			likely = []byte{13, 14, 16, 16, 16}
		}
		steps := []byte{3, 0, 0, answer<<2 | 1, 0, 0}
		for range rng.IntN(14) {
			item := likely[rng.IntN(len(likely))]
			if rng.IntN(20) == 0 {
				item = byte(rng.IntN(64))
			}
			steps = append(steps, item<<2|byte(rng.IntN(2))<<1|1, byte(rng.IntN(256)), byte(rng.IntN(256)))
		}
		switch seen := checkAnyFlow(t, decodeFlow(steps), rng.Uint64()); {
		case seen.Info.Done:
			ends["completed"]++
		case seen.GaveUp:
			ends["lost"]++
		case seen.Done:
			ends["failed"]++
		}
	}
	if len(ends) != 3 {
		t.Errorf("the rows ended only in these ways: %v", ends)
	}
	t.Log(ends)
}

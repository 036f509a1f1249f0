package handshake

import (
	"crypto/tls"
	"reflect"
	"testing"

	"github.com/connprof/connprof/profiler"
)

const (
	aes128 = tls.TLS_AES_128_GCM_SHA256
	aes256 = tls.TLS_AES_256_GCM_SHA384
	ecdhe  = tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
)

// flowOf numbers chunks: chunk i is entered at 10i+1 and returns at 10i+2.
func flowOf(chunks ...tlsChunk) tlsFlow {
	for i := range chunks {
		chunks[i].entry, chunks[i].ret = profiler.Instant(10*i+1), profiler.Instant(10*i+2)
	}
	return chunks
}

func out(records ...[]byte) tlsChunk { return tlsChunk{out: true, b: join(records...)} }
func in(records ...[]byte) tlsChunk  { return tlsChunk{b: join(records...)} }

// protected is a TLS 1.3 record whose payload has size bytes: 53 is a Finished with SHA-256, 69 with SHA-384, 19 an alert.
func protected(size int) []byte { return tlsRecord(recordApplicationData, make([]byte, size)...) }

func plain(messages ...[]byte) []byte     { return tlsRecord(recordHandshake, join(messages...)...) }
func alertRecord(level, code byte) []byte { return tlsRecord(recordAlert, level, code) }
func changeCipherSpec() []byte            { return tlsRecord(recordChangeCipherSpec, 1) }
func hello(extensions ...[]byte) []byte {
	return tlsMessage(messageClientHello, clientHelloBody(extensions...)...)
}
func hello12(extensions ...[]byte) []byte {
	return serverHelloMessage(0x0303, ecdhe, make([]byte, 32), extensions...)
}
func offersEarlyData() []byte {
	return hello(tlsExtension(extensionEarlyData), tlsExtension(extensionPreSharedKey))
}
func acceptsSession(cipher uint16) []byte {
	return hello13(cipher, tlsExtension(extensionPreSharedKey, 0, 0))
}
func hello13(c uint16, x ...[]byte) []byte { return hello13With(make([]byte, 32), c, x...) }
func helloRetryRequest() []byte {
	return hello13With(helloRetryRandom, aes128, tlsExtension(extensionKeyShare, 0, 24))
}

func hello13With(random []byte, cipher uint16, extensions ...[]byte) []byte {
	return serverHelloMessage(0x0303, cipher, random, append(extensions, tlsExtension(extensionSupportedVersions, 3, 4))...)
}

func serverHelloMessage(version, cipher uint16, random []byte, extensions ...[]byte) []byte {
	return tlsMessage(messageServerHello, serverHelloBody(version, cipher, random, extensions...)...)
}

// serverFlight is the server's answer in TLS 1.3 up to its Finished.
func serverFlight(cipher uint16) tlsChunk {
	return in(plain(hello13(cipher)), changeCipherSpec(), protected(40), protected(900), protected(97), protected(53))
}

// syntheticCase is a flow that crypto/tls does not produce, or not on demand.
type syntheticCase struct {
	name    string
	flow    tlsFlow
	info    func(*profiler.TLSInfo) // what the case expects, on top of the zero TLSInfo
	ended   profiler.Instant
	done    bool
	gaveUp  bool
	refused bool
}

func syntheticCases() []syntheticCase {
	certificate := func(i *profiler.TLSInfo) { i.ClientCert = true }
	refusedCertificate := func(i *profiler.TLSInfo) { i.ClientCert, i.AlertEncrypted = true, true }
	nothing := func(*profiler.TLSInfo) {}
	// The first three chunks of most flows: hello, answer, last flight, so that a last flight in chunk 2 ends at 22.
	flight13 := func(rest ...tlsChunk) tlsFlow {
		return flowOf(append([]tlsChunk{out(plain(hello())), serverFlight(aes128)}, rest...)...)
	}
	keyExchange := tlsMessage(messageServerKeyExchange, 3, 0, 23, 65, 4)
	answer12 := in(plain(hello12(), tlsMessage(11, make([]byte, 700)...), keyExchange, tlsMessage(14)))
	finished12 := tlsRecord(recordHandshake, make([]byte, 40)...)
	flight12 := out(plain(tlsMessage(16, make([]byte, 66)...)), changeCipherSpec(), finished12)
	p256 := func(i *profiler.TLSInfo) { i.Group = tls.CurveP256 }
	data := out(protected(80))

	return []syntheticCase{
		{name: "a lone Finished", flow: flight13(out(changeCipherSpec(), protected(53)), data), info: nothing, ended: 22, done: true},
		{name: "a Finished in a write of its own", flow: flight13(out(changeCipherSpec()), out(protected(53)), data),
			info: nothing, ended: 32, done: true},
		{name: "a Finished and data in one write", flow: flight13(out(protected(53), protected(80))), info: nothing, ended: 22, done: true},
		{name: "a Finished with SHA-384", flow: flowOf(out(plain(hello())), serverFlight(aes256), out(protected(69)), data),
			info: nothing, ended: 22, done: true},
		{name: "a Finished with an 8-byte tag", flow: flowOf(out(plain(hello())), serverFlight(0x1305), out(protected(45)), data),
			info: nothing, ended: 22, done: true},
		{name: "a refusal with an 8-byte tag", flow: flowOf(out(plain(hello())), serverFlight(0x1305), out(protected(11))),
			info: func(i *profiler.TLSInfo) { i.AlertEncrypted, i.AlertSent = true, true }, done: true},
		{name: "a suite with an unknown hash ends with the first record",
			flow: flowOf(out(plain(hello())), serverFlight(0x1399), out(protected(85)), data), info: nothing, ended: 22, done: true},
		{name: "a client certificate, three records in one write",
			flow: flight13(out(protected(900), protected(97), protected(53)), data), info: certificate, ended: 22, done: true},
		{name: "a client certificate, three writes", flow: flight13(out(protected(900)), out(protected(97)), out(protected(53)), data),
			info: certificate, ended: 42, done: true},
		{name: "an empty client certificate", flow: flight13(out(protected(25), protected(53)), data),
			info: certificate, ended: 22, done: true},
		{name: "a client certificate whose tail looks like a Finished",
			flow: flight13(out(protected(1<<14+17), protected(53)), out(protected(97), protected(53)), data),
			info: certificate, ended: 32, done: true},
		{name: "a client certificate whose tail looks like an alert",
			flow: flight13(out(protected(1<<14+17), protected(19), protected(97), protected(53)), data),
			info: certificate, ended: 22, done: true},
		{name: "the whole flight in one record", flow: flight13(out(protected(1050)), data, in(protected(200))),
			info: certificate, ended: 22, done: true},
		{name: "the whole flight in two records, of which one is full",
			flow: flight13(out(protected(1<<14+17)), out(protected(700)), data, in(protected(200))),
			info: certificate, ended: 32, done: true},
		{name: "the whole flight in one record and no answer yet", flow: flight13(out(protected(1050)), data), info: certificate},
		{name: "the whole flight in one record, refused", flow: flight13(out(protected(1050)), in(protected(19))),
			info: refusedCertificate, ended: 22, done: true, refused: true},
		{name: "the client refuses in the middle of its flight", flow: flight13(out(protected(900)), out(protected(19))),
			info: func(i *profiler.TLSInfo) { i.ClientCert, i.AlertEncrypted, i.AlertSent = true, true, true }, done: true},

		{name: "a refusal after data was written", flow: flight13(out(protected(900), protected(53)), data, in(protected(19))),
			info: refusedCertificate, ended: 22, done: true, refused: true},
		{name: "a close after a reply is no refusal",
			flow: flight13(out(protected(900), protected(53)), data, in(protected(90), protected(19))),
			info: certificate, ended: 22, done: true},
		{name: "a close without a client certificate is no refusal", flow: flight13(out(protected(53)), in(protected(19))),
			info: nothing, ended: 22, done: true},
		{name: "a refusal in the clear", flow: flight13(out(protected(53)), in(alertRecord(2, 51))),
			info: func(i *profiler.TLSInfo) { i.Alert = 51 }, ended: 22, done: true, refused: true},
		{name: "a close in the clear is no refusal", flow: flight13(out(protected(53)), in(alertRecord(1, 0))),
			info: nothing, ended: 22, done: true},
		{name: "the record that was half read when the client finished is the first after it",
			flow: flight13(in(protected(250)[:40]), out(protected(900), protected(53)), in(protected(250)[40:], protected(19))),
			info: certificate, ended: 32, done: true},
		{name: "garbage after the handshake changes nothing", flow: flight13(out(protected(53)), in([]byte("garbage"))),
			info: nothing, ended: 22, done: true},

		{name: "an encrypted alert instead of the server's Finished",
			flow: flowOf(out(plain(hello())), in(plain(hello13(aes128)), protected(19))),
			info: func(i *profiler.TLSInfo) { i.AlertEncrypted = true }},
		{name: "a server's fragment that looks like an alert",
			flow: flowOf(out(plain(hello())), in(plain(hello13(aes128)), protected(1000), protected(19)), out(protected(53))),
			info: nothing, ended: 22, done: true},
		{name: "an early alert", flow: flowOf(out(plain(hello())[:60]), in(alertRecord(2, 70))),
			info: func(i *profiler.TLSInfo) { i.Alert, i.HelloSize = 70, 0 }, done: true},
		{name: "user_canceled and close_notify",
			flow: flowOf(out(plain(hello())), in(plain(hello13(aes128))),
				out(alertRecord(1, 90), alertRecord(1, 0))),
			info: func(i *profiler.TLSInfo) { i.Alert, i.AlertSent = 90, true }, done: true},

		{name: "0-RTT data, accepted",
			flow: flowOf(out(plain(offersEarlyData()), changeCipherSpec(), protected(53), protected(19), protected(700)),
				in(plain(acceptsSession(aes128)), protected(30), protected(53)), out(protected(300), protected(21)), out(protected(53)), data),
			info:  func(i *profiler.TLSInfo) { i.Resumed, i.ResumptionOffered, i.Tickets = true, true, profiler.TicketsYes },
			ended: 32, done: true},
		{name: "0-RTT data, refused with a HelloRetryRequest",
			flow: flowOf(out(plain(offersEarlyData()), protected(53)), in(plain(helloRetryRequest()), changeCipherSpec()),
				out(changeCipherSpec(), plain(hello())), serverFlight(aes128), out(protected(53)), data),
			info: func(i *profiler.TLSInfo) { i.ResumptionOffered, i.HelloRetry = true, true }, ended: 42, done: true},

		{name: "TLS 1.2", flow: flowOf(out(plain(hello())), answer12, flight12, in(changeCipherSpec(), finished12), data),
			info: p256, ended: 32, done: true},
		{name: "TLS 1.2, the last read holds more", flow: flowOf(out(plain(hello())), answer12, flight12,
			in(changeCipherSpec(), finished12, protected(60))),
			info: p256, ended: 32, done: true},
		{name: "TLS 1.2, a ticket", flow: flowOf(out(plain(hello())), answer12, flight12,
			in(plain(tlsMessage(messageNewSessionTicket, make([]byte, 190)...)), changeCipherSpec(), finished12)),
			info: func(i *profiler.TLSInfo) { p256(i); i.Tickets = profiler.TicketsYes }, ended: 32, done: true},
		{name: "TLS 1.2, resumed by session id", flow: flowOf(out(plain(hello())), in(plain(hello12()), changeCipherSpec(), finished12),
			out(changeCipherSpec(), finished12), data),
			info:  func(i *profiler.TLSInfo) { i.Resumed, i.ResumptionOffered, i.Tickets = true, true, profiler.TicketsYes },
			ended: 22, done: true},
		{name: "TLS 1.2, False Start", flow: flowOf(out(plain(hello())), answer12, flight12, data, in(changeCipherSpec(), finished12)),
			info: p256, ended: 42, done: true},
		{name: "TLS 1.2, a warning does not end it", flow: flowOf(out(plain(hello())), in(alertRecord(1, 112)), answer12, flight12,
			in(changeCipherSpec(), finished12)),
			info: func(i *profiler.TLSInfo) { p256(i); i.Alert = 112 }, ended: 42, done: true},
		{name: "TLS 1.2, the server refuses the client's Finished", flow: flowOf(out(plain(hello())), answer12, flight12, in(alertRecord(2, 20))),
			info: func(i *profiler.TLSInfo) { p256(i); i.Alert = 20 }, done: true},
		{name: "TLS 1.2, the client refuses the server's Finished",
			flow: flowOf(out(plain(hello())), in(plain(hello12()), changeCipherSpec(), finished12),
				out(changeCipherSpec(), tlsRecord(recordAlert, make([]byte, 26)...))),
			info: func(i *profiler.TLSInfo) {
				i.Resumed, i.ResumptionOffered, i.Tickets, i.AlertEncrypted, i.AlertSent = true, true, profiler.TicketsYes, true, true
			}, done: true},

		{name: "plaintext from the client",
			flow: flowOf(out([]byte("GET / HTTP/1.1\r\n")), in([]byte("HTTP/1.1 200"))), gaveUp: true, done: true},
		{name: "plaintext from the server", flow: flowOf(out(plain(hello())), in([]byte("HTTP/1.1 400 Bad Request\r\n"))),
			info: nothing, gaveUp: true, done: true},
		{name: "the server speaks first", flow: flowOf(in(plain(hello12())), out(plain(hello()))), gaveUp: true, done: true},
		{name: "another first message", flow: flowOf(out(plain(tlsMessage(16, 1, 2, 3)))), gaveUp: true, done: true},
		{name: "a ClientHello without end", flow: flowOf(out(plain([]byte{1, 1, 0, 0}), plain(make([]byte, 1<<14)))), gaveUp: true, done: true},
		{name: "a ClientHello that is interrupted", flow: flowOf(out(plain(hello()[:30]), changeCipherSpec(), plain(hello()[30:]))),
			info: func(i *profiler.TLSInfo) { i.HelloSize = 0 }, gaveUp: true, done: true},
		{name: "an answer to half a ClientHello", flow: flowOf(out(plain(hello()[:30])), in(plain(hello12()))),
			info: func(i *profiler.TLSInfo) { i.HelloSize = 0 }, gaveUp: true, done: true},
		{name: "a second HelloRetryRequest", flow: flowOf(out(plain(hello())), in(plain(helloRetryRequest())),
			out(plain(hello())), in(plain(helloRetryRequest()))),
			info: func(i *profiler.TLSInfo) { i.HelloRetry = true }, gaveUp: true, done: true},
		{name: "a second ClientHello that nobody asked for",
			flow: flowOf(out(plain(hello()), plain(hello()))), info: nothing, gaveUp: true, done: true},
		{name: "plaintext after the ServerHello of TLS 1.3",
			flow: flowOf(out(plain(hello())), in(plain(hello13(aes128), tlsMessage(8, 0, 0)))),
			info: nothing, gaveUp: true, done: true},
		{name: "an unknown version", flow: flowOf(out(plain(hello())), in(plain(serverHelloMessage(0x0305, aes128, make([]byte, 32))))),
			info: nothing, gaveUp: true, done: true},
		{name: "data before the ServerHello", flow: flowOf(out(plain(hello()), protected(53))), info: nothing, gaveUp: true, done: true},
	}
}

func TestTLSWatchSyntheticFlows(t *testing.T) {
	for _, c := range syntheticCases() {
		t.Run(c.name, func(t *testing.T) {
			w, seen := c.flow.watch()
			var want profiler.TLSInfo
			if c.info != nil {
				want.Seen, want.HelloSize = true, int32(len(hello()))
				c.info(&want)
			}
			want.Done = c.ended.Known()
			got := seen.Info
			if want.HelloSize > 0 && got.ResumptionOffered && !got.Resumed || got.Resumed {
				want.HelloSize = got.HelloSize
			}
			want.Version, want.Cipher, want.BytesIn, want.BytesOut = got.Version, got.Cipher, got.BytesIn, got.BytesOut
			want.CertificateBytes, want.CertificateAtMost = got.CertificateBytes, got.CertificateAtMost
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
			if seen.Done != c.done || seen.GaveUp != c.gaveUp || seen.Refused != c.refused || w.ended() != c.ended {
				t.Errorf("done %v, gave up %v, refused %v, ended %d", seen.Done, seen.GaveUp, seen.Refused, w.ended())
			}
			for name, flow := range c.flow.cuts(1) {
				if _, got := flow.watch(); !reflect.DeepEqual(got, seen) {
					t.Errorf("%s:\n got %+v\nwant %+v", name, got, seen)
				}
			}
		})
	}
}

func TestTLSWatchCountsTheHandshakeAlone(t *testing.T) {
	const header = recordHeaderSize
	helloSize, ccs := int64(header+len(hello())), int64(header+1)
	answer := int64(len(serverFlight(aes128).b))
	finished12 := tlsRecord(recordHandshake, make([]byte, 40)...)
	for _, c := range []struct {
		name    string
		flow    tlsFlow
		out, in int64
	}{
		{"data in the write of the Finished", flowOf(out(plain(hello())), serverFlight(aes128),
			out(changeCipherSpec(), protected(53), protected(80))),
			helloSize + ccs + header + 53, answer},
		{"data after a flight in one record", flowOf(out(plain(hello())), serverFlight(aes128),
			out(protected(1050)), out(protected(80)), in(protected(80))),
			helloSize + header + 1050, answer},
		{"half a record read too early", flowOf(out(plain(hello())), serverFlight(aes128), in(protected(250)[:40]), out(protected(53))),
			helloSize + header + 53, answer},
		{"data after the server's Finished", flowOf(out(plain(hello())), in(plain(hello12())), out(changeCipherSpec(), finished12),
			in(changeCipherSpec(), finished12, protected(60))),
			helloSize + ccs + header + 40, int64(header+len(hello12())) + ccs + header + 40},
		{"0-RTT data", flowOf(out(plain(offersEarlyData()), protected(700)), in(plain(acceptsSession(aes128)), protected(53)),
			out(protected(21), protected(53))),
			int64(header+len(offersEarlyData())) + header + 53, int64(header+len(acceptsSession(aes128))) + header + 53},
	} {
		_, seen := c.flow.watch()
		if !seen.Info.Done || seen.Info.BytesOut != c.out || seen.Info.BytesIn != c.in {
			t.Errorf("%s: done %v, out %d, in %d; want %d, %d", c.name, seen.Info.Done, seen.Info.BytesOut, seen.Info.BytesIn, c.out, c.in)
		}
	}
}

func TestTLSWatchTellsTheSizeOfTheServersCertificate(t *testing.T) {
	certificate := tlsMessage(messageCertificate, make([]byte, 700)...)
	finished12 := tlsRecord(recordHandshake, make([]byte, 40)...)
	const sealed = 1 + 16 // the content's type and the tag
	for _, c := range []struct {
		name   string
		flow   tlsFlow
		size   int32
		atMost bool
	}{
		{"TLS 1.3", flowOf(out(plain(hello())), serverFlight(aes128), out(protected(53)), in(protected(250))), 40 + 900 + 97 + 53 - 4*sealed, true},
		{"TLS 1.3, a tag of 8 bytes", flowOf(out(plain(hello())), serverFlight(0x1305), out(protected(45))), 40 + 900 + 97 + 53 - 4*(1+8), true},
		{"TLS 1.3, the client's flight in two writes", flowOf(out(plain(hello())), serverFlight(aes128), out(protected(900)), out(protected(53))),
			40 + 900 + 97 + 53 - 4*sealed, true},
		{"TLS 1.3, resumed", flowOf(out(plain(hello())), in(plain(acceptsSession(aes128)), protected(30), protected(53)), out(protected(53))), 0, false},
		{"no answer", flowOf(out(plain(hello()))), 0, false},
		{"TLS 1.2", flowOf(out(plain(hello())), in(plain(hello12(), certificate)), out(changeCipherSpec(), finished12)), 704, false},
		{"TLS 1.2, a client's certificate, too", flowOf(out(plain(hello())), in(plain(hello12(), certificate)),
			out(plain(tlsMessage(messageCertificate, 1, 2, 3)), changeCipherSpec(), finished12)), 704, false},
		{"TLS 1.2, half of it", flowOf(out(plain(hello())), in(plain(hello12(), certificate[:300]))), 0, false},
	} {
		for _, flow := range c.flow.cuts(1) {
			if w, seen := flow.watch(); seen.Info.CertificateBytes != c.size || seen.Info.CertificateAtMost != c.atMost {
				t.Fatalf("%s: %d bytes, at most: %v; want %d, %v (state %d)", c.name, seen.Info.CertificateBytes, seen.Info.CertificateAtMost,
					c.size, c.atMost, w.state)
			}
		}
	}
}

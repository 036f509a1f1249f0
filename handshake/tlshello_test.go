package handshake

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// Builders of TLS structures for tests.

func vec8(b ...byte) []byte  { return append([]byte{byte(len(b))}, b...) }
func vec16(b ...byte) []byte { return append([]byte{byte(len(b) >> 8), byte(len(b))}, b...) }
func u16(v uint16) []byte    { return []byte{byte(v >> 8), byte(v)} }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func tlsMessage(messageType byte, body ...byte) []byte {
	return append([]byte{messageType, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func tlsRecord(contentType byte, payload ...byte) []byte {
	return join([]byte{contentType, 3, 3}, vec16(payload...))
}

func tlsExtension(id uint16, body ...byte) []byte { return join(u16(id), vec16(body...)) }

func clientHelloBody(extensions ...[]byte) []byte {
	body := join(u16(tls.VersionTLS12), make([]byte, 32), vec8(make([]byte, 32)...), vec16(0x13, 0x01), vec8(0))
	if extensions == nil {
		return body
	}
	return join(body, vec16(join(extensions...)...))
}

func serverHelloBody(version, cipher uint16, random []byte, extensions ...[]byte) []byte {
	return join(u16(version), random, vec8(), u16(cipher), []byte{0}, vec16(join(extensions...)...))
}

func TestParseClientHello(t *testing.T) {
	serverNames := tlsExtension(extensionServerName, vec16(join([]byte{0}, vec16([]byte("db.example")...))...)...)
	ticketExtension := func(ticket ...byte) []byte { return tlsExtension(extensionSessionTicket, ticket...) }
	for _, c := range []struct {
		name string
		body []byte
		want clientHello
		ok   bool
	}{
		{"no extensions at all", clientHelloBody(), clientHello{}, true},
		{"an empty extension block", clientHelloBody([][]byte{}...), clientHello{}, true},
		{"a server name", clientHelloBody(serverNames), clientHello{serverName: "db.example"}, true},
		{"a name of another kind is not a server name",
			clientHelloBody(tlsExtension(extensionServerName, vec16(join([]byte{7}, vec16('x'))...)...)), clientHello{}, true},
		{"protocols in their order", clientHelloBody(tlsExtension(extensionALPN, vec16(join(vec8('b'), vec8('a', 'a'))...)...)),
			clientHello{alpn: []string{"b", "aa"}}, true},
		{"an empty ticket only asks for one", clientHelloBody(ticketExtension()), clientHello{tickets: true}, true},
		{"a ticket offers a session", clientHelloBody(ticketExtension(1, 2)), clientHello{tickets: true, resumes: true}, true},
		{"modes of keys ask for tickets, too", clientHelloBody(tlsExtension(extensionPSKModes, 1, 1)), clientHello{tickets: true}, true},
		{"a pre-shared key offers a session", clientHelloBody(ticketExtension(), tlsExtension(extensionPreSharedKey, 0, 0)),
			clientHello{tickets: true, resumes: true}, true},
		{"groups, and keys for some", clientHelloBody(tlsExtension(extensionSupportedGroups, vec16(0x11, 0xec, 0, 29, 0, 23, 0x7a, 0x7a)...),
			tlsExtension(extensionKeyShare, vec16(join(u16(0x11ec), vec16(make([]byte, 1216)...), u16(29), vec16(make([]byte, 32)...))...)...)),
			clientHello{groups: profiler.Groups(0).With(4588).With(29).With(23).With(0x7a7a), shares: profiler.Groups(0).With(29).With(4588)}, true},
		{"a group of one byte", clientHelloBody(tlsExtension(extensionSupportedGroups, 0, 3, 0, 29, 0)), clientHello{}, false},
		{"a key longer than its list", clientHelloBody(tlsExtension(extensionKeyShare, 0, 6, 0, 29, 0, 9, 1, 2)), clientHello{}, false},
		{"early data", clientHelloBody(tlsExtension(extensionEarlyData)), clientHello{earlyData: true}, true},
		{"unknown extensions are skipped", clientHelloBody(tlsExtension(0xfe0d, 1, 2, 3), serverNames),
			clientHello{serverName: "db.example"}, true},
		{"nothing", nil, clientHello{}, false},
		{"cut in the random", clientHelloBody()[:20], clientHello{}, false},
		{"cut in the cipher suites", clientHelloBody()[:69], clientHello{}, false},
		{"cut in an extension", clientHelloBody(serverNames)[:80], clientHello{}, false},
		{"bytes after the extensions", append(clientHelloBody(serverNames), 0), clientHello{}, false},
		{"a server name longer than its list", clientHelloBody(tlsExtension(extensionServerName, 0, 4, 0, 0, 9, 'x')), clientHello{}, false},
		{"a list longer than its extension", clientHelloBody(tlsExtension(extensionALPN, 0, 9, 1, 'x')), clientHello{}, false},
		{"half an extension header", join(clientHelloBody(), vec16(0, 0, 0)), clientHello{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseClientHello(c.body)
			if ok != c.ok || ok && !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestParseClientHelloKeepsFewProtocols(t *testing.T) {
	protocols := bytes.Repeat(vec8('p'), 30000)
	h, ok := parseClientHello(clientHelloBody(tlsExtension(extensionALPN, vec16(protocols...)...)))
	if !ok || len(h.alpn) != alpnMax {
		t.Errorf("kept %d protocols, ok %v", len(h.alpn), ok)
	}
}

func TestParseServerHello(t *testing.T) {
	random := make([]byte, 32)
	tls13 := tlsExtension(extensionSupportedVersions, 3, 4)
	share := tlsExtension(extensionKeyShare, join(u16(uint16(tls.X25519MLKEM768)), vec16(make([]byte, 1120)...))...)
	for _, c := range []struct {
		name string
		body []byte
		want serverHello
		ok   bool
	}{
		{"TLS 1.2 without extensions", serverHelloBody(0x0303, 0xc02f, random)[:38], serverHello{version: 0x0303, cipher: 0xc02f}, true},
		{"TLS 1.0", serverHelloBody(0x0301, 0xc013, random), serverHello{version: 0x0301, cipher: 0xc013}, true},
		{"TLS 1.3 with a key share", serverHelloBody(0x0303, 0x1301, random, tls13, share),
			serverHello{version: 0x0304, cipher: 0x1301, group: tls.X25519MLKEM768}, true},
		{"TLS 1.3 with a session", serverHelloBody(0x0303, 0x1302, random, tls13, share, tlsExtension(extensionPreSharedKey, 0, 0)),
			serverHello{version: 0x0304, cipher: 0x1302, group: tls.X25519MLKEM768, psk: true}, true},
		{"a HelloRetryRequest names the group alone",
			serverHelloBody(0x0303, 0x1301, helloRetryRandom, tls13, tlsExtension(extensionKeyShare, 0, 24)),
			serverHello{version: 0x0304, cipher: 0x1301, group: tls.CurveP384, retry: true}, true},
		{"only TLS 1.3 has a HelloRetryRequest", serverHelloBody(0x0303, 0xc02f, helloRetryRandom),
			serverHello{version: 0x0303, cipher: 0xc02f}, true},
		{"nothing", nil, serverHello{}, false},
		{"cut in the random", serverHelloBody(0x0303, 0xc02f, random)[:30], serverHello{}, false},
		{"cut in an extension", serverHelloBody(0x0303, 0x1301, random, tls13, share)[:60], serverHello{}, false},
		{"a version of one byte", serverHelloBody(0x0303, 0x1301, random, tlsExtension(extensionSupportedVersions, 3)), serverHello{}, false},
		{"bytes after the extensions", append(serverHelloBody(0x0303, 0x1301, random, tls13), 1), serverHello{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseServerHello(c.body)
			if ok != c.ok || ok && got != c.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestHelloRetryRandomIsTheHashOfItsName(t *testing.T) {
	if sum := sha256.Sum256([]byte("HelloRetryRequest")); !bytes.Equal(sum[:], helloRetryRandom) {
		t.Errorf("%x", helloRetryRandom)
	}
}

func TestHelloKeyExchangeGroup(t *testing.T) {
	named := []byte{3, 0, 29, 32}
	for _, c := range []struct {
		name   string
		cipher uint16
		body   []byte
		want   tls.CurveID
	}{
		{"ECDHE", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, named, tls.X25519},
		{"ECDHE with ChaCha20", tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, named, tls.X25519},
		{"a prime of 0x0300 bytes is no curve", 0x009e, []byte{3, 0, 0xff, 0xff}, 0}, // DHE_RSA, ffdhe6144
		{"an explicit curve has no name", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, []byte{1, 0, 29, 32}, 0},
		{"too short", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, named[:3], 0},
	} {
		if got := keyExchangeGroup(c.cipher, c.body); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLooksLikeClientHello(t *testing.T) {
	for _, c := range []struct {
		name string
		b    string
		want bool
	}{
		{"the first write of a client", "\x16\x03\x01\x05\xb8\x01\x00\x05\xb4\x03\x03", true},
		{"six bytes of it", "\x16\x03\x03\x00\x80\x01", true},
		{"five bytes are undecided", "\x16\x03\x01\x05\xb8", false},
		{"nothing", "", false},
		{"another handshake message", "\x16\x03\x03\x00\x80\x02", false},
		{"a record longer than any", "\x16\x03\x03\x40\x01\x01", false},
		{"an empty record", "\x16\x03\x03\x00\x00\x01", false},
		{"SSL 2", "\x80\x2e\x01\x00\x02\x01", false},
		{"data", "\x17\x03\x03\x00\x80\x01", false},
		{"PostgreSQL's SSLRequest", "\x00\x00\x00\x08\x04\xd2\x16\x2f", false},
		{"a MySQL SSLRequest", "\x20\x00\x00\x01\x8d\xae\xff\x19", false},
		{"a MongoDB message", "\x3e\x01\x00\x00\x01\x00\x00\x00", false},
	} {
		if got := looksLikeClientHello([]byte(c.b)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRecordWalkerFindsBoundariesInAnyFragments(t *testing.T) {
	stream := join(tlsRecord(22, []byte("hello")...), tlsRecord(23), tlsRecord(21, 2, 40), []byte{23, 3, 3, 0})
	want := "22:hello 23: 21:\x02\x28 "
	for size := 1; size <= len(stream); size++ {
		var r recordWalker
		var got strings.Builder
		var payload []byte
		for b := stream; len(b) > 0; {
			n := min(size, len(b))
			for piece := b[:n]; len(piece) > 0; {
				p, rest, complete, ok := r.next(piece)
				if !ok || len(rest) >= len(piece) {
					t.Fatalf("size %d: ok %v, %d bytes left of %d", size, ok, len(rest), len(piece))
				}
				if payload = append(payload, p...); complete {
					got.WriteString(string([]byte{'0' + r.contentType()/10, '0' + r.contentType()%10, ':'}) + string(payload) + " ")
					payload = nil
				}
				piece = rest
			}
			b = b[n:]
		}
		if got.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got.String(), want)
		}
	}
}

func TestRecordWalkerRefusesOtherHeaders(t *testing.T) {
	for _, header := range []string{"HTTP/", "\x13\x03\x03\x00\x01", "\x19\x03\x03\x00\x01", "\x16\x02\x00\x00\x01", "\x16\x03\x05\x00\x01",
		"\x16\x03\x03\x48\x01"} {
		var r recordWalker
		if _, _, _, ok := r.next([]byte(header)); ok {
			t.Errorf("%q passed for a record", header)
		}
	}
}

// recordedHello is the body of the ClientHello that crypto/tls writes for a config.
func recordedHello(tb testing.TB, config *tls.Config) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		tls.Client(client, config).Handshake()
	}()
	b := make([]byte, 4096)
	n, err := server.Read(b)
	if err != nil {
		tb.Fatal(err)
	}
	return b[recordHeaderSize+messageHeaderSize : n]
}

// FuzzHello: the hello parsers never panic, and the reader hands them the same body for every split of the message.
func FuzzHello(f *testing.F) {
	f.Add(recordedHello(f, &tls.Config{ServerName: "localhost", NextProtos: []string{"postgresql"}}))
	f.Add(recordedHello(f, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}))
	f.Add(serverHelloBody(0x0303, 0x1301, helloRetryRandom,
		tlsExtension(extensionSupportedVersions, 3, 4), tlsExtension(extensionKeyShare, 0, 24)))
	f.Add(clientHelloBody(tlsExtension(extensionServerName, vec16(join([]byte{0}, vec16('x'))...)...), tlsExtension(extensionEarlyData)))
	f.Fuzz(func(t *testing.T, body []byte) {
		if h, ok := parseClientHello(body); ok && len(h.alpn) > alpnMax {
			t.Error("too many protocols")
		}
		if h, ok := parseServerHello(body); ok && h.retry && h.version != tls.VersionTLS13 {
			t.Error("a HelloRetryRequest outside TLS 1.3")
		}
		if len(body) >= helloMax {
			return
		}
		for _, size := range []int{1, 3, 1000} {
			var m messageReader
			complete := false
			for b := tlsMessage(messageClientHello, body...); len(b) > 0; {
				n := min(size, len(b))
				var rest []byte
				if rest, complete = m.next(b[:n]); len(rest) > 0 {
					t.Fatal("took less than the message")
				}
				b = b[n:]
			}
			if !complete || m.partial() || !bytes.Equal(m.body, body) {
				t.Fatalf("in pieces of %d: complete %v, %d of %d bytes", size, complete, len(m.body), len(body))
			}
		}
	})
}

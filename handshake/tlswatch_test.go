package handshake

import (
	"crypto/tls"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/connprof/connprof/profiler"
)

// tlsCase is a handshake between two configs made for it, of which want says what the connection state does not.
type tlsCase struct {
	name      string
	versions  []uint16
	client    func(*tls.Config)
	server    func(*tls.Config)
	resume    bool // watch the second of two connections that share a session cache
	cacheless bool // the client has no cache of sessions
	fails     bool // the client's handshake does
	refused   bool // the server refuses after the client finished
	want      profiler.TLSInfo
}

var (
	allVersions = []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13}
	upTo12      = allVersions[:3]
	only12      = []uint16{tls.VersionTLS12}
	only13      = []uint16{tls.VersionTLS13}
)

func tlsCases() []tlsCase {
	clientCert := func(get func() tls.Certificate) func(*tls.Config) {
		return func(c *tls.Config) { c.Certificates = []tls.Certificate{get()} }
	}
	require := func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }
	verify := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, tlsPool() }
	asked := profiler.TLSInfo{ClientCert: true}
	return []tlsCase{
		{name: "a full handshake with an ECDSA certificate", versions: allVersions},
		{name: "a full handshake with an RSA certificate", versions: allVersions, server: clientCert(rsaCert)},
		{name: "a certificate of 30 KB spans records", versions: allVersions, server: clientCert(largeCert)},
		{name: "a resumed session", versions: allVersions, resume: true},
		{name: "a resumed session after a client certificate", versions: allVersions, resume: true,
			client: clientCert(ecdsaCert), server: require},
		{name: "an offered session that the server can't read", versions: allVersions, resume: true,
			server: func(c *tls.Config) { c.SessionTicketsDisabled = true }},
		{name: "no tickets", versions: allVersions, client: func(c *tls.Config) { c.SessionTicketsDisabled = true }, cacheless: true},
		{name: "the server insists on P-384", versions: allVersions,
			server: func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }},
		{name: "a resumed session and the server insists on P-384", versions: allVersions, resume: true,
			server: func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }},
		{name: "X25519 alone", versions: allVersions,
			client: func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }},
		{name: "static RSA key exchange has no group", versions: only12, server: func(c *tls.Config) {
			c.Certificates = []tls.Certificate{rsaCert()}
			c.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}
		}, client: func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256} }},
		{name: "a SHA-384 cipher suite", versions: only12,
			client: func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} }},
		{name: "an ECDSA client certificate", versions: allVersions, client: clientCert(ecdsaCert), server: require, want: asked},
		{name: "an RSA client certificate", versions: allVersions, client: clientCert(rsaCert), server: require, want: asked},
		{name: "a client certificate of 30 KB", versions: allVersions, client: clientCert(largeCert), server: require, want: asked},
		{name: "a client certificate after a HelloRetryRequest", versions: only13, client: clientCert(ecdsaCert),
			server: func(c *tls.Config) { require(c); c.CurvePreferences = []tls.CurveID{tls.CurveP521} }, want: asked},
		{name: "the server asks for a certificate and gets none", versions: allVersions,
			server: func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, want: asked},
		{name: "the server refuses the client certificate at the end", versions: only13, client: clientCert(ecdsaCert), server: verify,
			refused: true, want: profiler.TLSInfo{ClientCert: true, AlertEncrypted: true}},
		{name: "the server refuses the lack of a client certificate at the end", versions: only13, server: require,
			refused: true, want: profiler.TLSInfo{ClientCert: true, AlertEncrypted: true}},
		{name: "the server refuses the client certificate", versions: upTo12, client: clientCert(ecdsaCert), server: verify,
			fails: true, want: profiler.TLSInfo{ClientCert: true, Alert: 48}}, // unknown_ca
		{name: "the client refuses the server certificate", versions: only13, client: func(c *tls.Config) { c.RootCAs = tlsPool() },
			fails: true, want: profiler.TLSInfo{AlertEncrypted: true, AlertSent: true}},
		{name: "the client refuses a large server certificate", versions: only13, server: clientCert(largeCert),
			client: func(c *tls.Config) { c.RootCAs = tlsPool() },
			fails:  true, want: profiler.TLSInfo{AlertEncrypted: true, AlertSent: true}},
		{name: "the client refuses the server certificate in the clear", versions: upTo12,
			client: func(c *tls.Config) { c.RootCAs = tlsPool() },
			fails:  true, want: profiler.TLSInfo{Alert: 42, AlertSent: true}}, // bad_certificate
		{name: "no common version", versions: only13, server: func(c *tls.Config) { c.MinVersion, c.MaxVersion = 0, tls.VersionTLS12 },
			fails: true, want: profiler.TLSInfo{Alert: 70}}, // protocol_version
		{name: "no common version, the other way", versions: upTo12,
			server: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS13, 0 },
			fails:  true, want: profiler.TLSInfo{Alert: 70}},
		{name: "no common protocol", versions: allVersions, client: func(c *tls.Config) { c.NextProtos = []string{"mongodb", "x"} },
			server: func(c *tls.Config) { c.NextProtos = []string{"postgresql"} },
			fails:  true, want: profiler.TLSInfo{Alert: 120, ALPN: []string{"mongodb", "x"}}}, // no_application_protocol
		{name: "a common protocol", versions: allVersions, client: func(c *tls.Config) { c.NextProtos = []string{"postgresql"} },
			server: func(c *tls.Config) { c.NextProtos = []string{"postgresql"} },
			want:   profiler.TLSInfo{ALPN: []string{"postgresql"}}},
	}
}

// run makes the handshake of the case with crypto/tls.
func (c *tlsCase) run(t *testing.T, version uint16) tlsSession {
	client := &tls.Config{
		ServerName: "localhost", RootCAs: tlsPool(ecdsaCert(), rsaCert(), largeCert()),
		MinVersion: version, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	server := &tls.Config{Certificates: []tls.Certificate{ecdsaCert()}, MinVersion: tls.VersionTLS10}
	first := server.Clone()
	if c.client != nil {
		c.client(client)
	}
	if c.server != nil {
		c.server(server)
	}
	if c.resume {
		first.ClientAuth = server.ClientAuth
		first.SetSessionTicketKeys([][32]byte{{}})
		server.SetSessionTicketKeys([][32]byte{{}})
		if s := runTLS(t, client, first); s.err != nil || s.late != nil {
			t.Fatal("first connection:", s.err, s.late)
		}
	}
	return runTLS(t, client, server)
}

func TestTLSWatchAgreesWithCryptoTLS(t *testing.T) {
	for _, c := range tlsCases() {
		for _, version := range c.versions {
			t.Run(fmt.Sprintf("%s, %s", tls.VersionName(version), c.name), func(t *testing.T) {
				s := c.run(t, version)
				if (s.err != nil) != c.fails || s.err == nil && (s.late != nil) != c.refused {
					t.Fatalf("handshake: %v, then %v", s.err, s.late)
				}
				w, seen := s.flow.watch()
				c.checkFacts(t, version, s, seen)
				c.checkTimes(t, version, s, w)
				for name, flow := range s.flow.cuts(uint64(version)) {
					if _, got := flow.watch(); !reflect.DeepEqual(got, seen) {
						t.Errorf("%s:\n got %+v\nwant %+v", name, got, seen)
					}
				}
				if w.in.messages.body != nil || w.out.messages.body != nil {
					t.Error("a hello is still held after the handshake")
				}
			})
		}
	}
}

func (c *tlsCase) checkFacts(t *testing.T, version uint16, s tlsSession, seen tlsSeen) {
	t.Helper()
	got := seen.Info
	want := c.want
	want.Seen, want.Done, want.ServerName = true, s.err == nil, "localhost"
	want.HelloSize = got.HelloSize
	want.BytesIn, want.BytesOut = got.BytesIn, got.BytesOut
	want.TicketsAsked, want.ResumptionOffered = !c.cacheless, c.resume
	if s.err == nil {
		st := s.state
		want.Version, want.Cipher, want.Resumed, want.HelloRetry = st.Version, st.CipherSuite, st.DidResume, st.HelloRetryRequest
		if version == tls.VersionTLS13 || !st.DidResume { // a session of TLS 1.2 keeps its group; no key is exchanged
			want.Group = st.CurveID
		}
		want.Tickets = got.Tickets
		switch {
		case st.DidResume && got.Tickets != profiler.TicketsYes, version == tls.VersionTLS13 && !st.DidResume && got.Tickets != 0:
			t.Errorf("Tickets = %v", got.Tickets)
		}
	} else { // crypto/tls keeps no state of a failed handshake
		want.Version, want.Cipher, want.Group, want.Tickets = got.Version, got.Cipher, got.Group, got.Tickets
	}
	for _, id := range s.offered {
		want.GroupsOffered = want.GroupsOffered.With(id)
	}
	want.KeyShares = got.KeyShares
	if retry := want.HelloRetry; s.err == nil && version == tls.VersionTLS13 && retry == got.KeyShares.Has(got.Group) ||
		version < tls.VersionTLS13 && got.KeyShares != 0 || got.KeyShares&^got.GroupsOffered != 0 {
		t.Errorf("keys for %v of %v; taken %s, retry %v", got.KeyShares, got.GroupsOffered, got.GroupName(), retry)
	}
	want.CertificateBytes, want.CertificateAtMost = got.CertificateBytes, got.CertificateAtMost
	c.checkCertificate(t, version, s, got)
	require.Equal(t, want, got)

	stream := map[bool][]byte{}
	for _, chunk := range s.flow {
		if chunk.ret <= s.returns {
			stream[chunk.out] = append(stream[chunk.out], chunk.b...)
		}
	}
	if out, in := wholeRecords(stream[true]), wholeRecords(stream[false]); got.BytesOut != out || got.BytesIn != in {
		t.Errorf("bytes out, in = %d, %d; the handshake had %d, %d", got.BytesOut, got.BytesIn, out, in)
	}
	if min, max := int32(100), int32(3000); got.HelloSize < min || got.HelloSize > max {
		t.Errorf("HelloSize = %d", got.HelloSize)
	}
	if !seen.Done || seen.GaveUp || !seen.Settled || seen.Refused != c.refused {
		t.Errorf("done %v, gave up %v, settled %v, refused %v", seen.Done, seen.GaveUp, seen.Settled, seen.Refused)
	}
}

// checkCertificate compares the size of the server's certificate with what crypto/tls was given.
func (c *tlsCase) checkCertificate(t *testing.T, version uint16, s tlsSession, got profiler.TLSInfo) {
	t.Helper()
	size := int32(0) // of the message of TLS 1.2 (RFC 5246 §7.4.2)
	if s.err == nil && !s.state.DidResume {
		size = messageHeaderSize + 3
		for _, cert := range s.state.PeerCertificates {
			size += 3 + int32(len(cert.Raw))
		}
	}
	const others = 1 + 2 + 700 // what TLS 1.3 adds to the message, and the messages around it
	switch {
	case s.err != nil:
	case version == tls.VersionTLS13 && size > 0:
		if !got.CertificateAtMost || got.CertificateBytes <= size || got.CertificateBytes > size+others {
			t.Errorf("a certificate of at most %d bytes (%v), want a little more than %d", got.CertificateBytes, got.CertificateAtMost, size)
		}
	default:
		if got.CertificateAtMost || got.CertificateBytes != size {
			t.Errorf("a certificate of %d bytes (at most: %v), want %d", got.CertificateBytes, got.CertificateAtMost, size)
		}
	}
}

// wholeRecords is the size of the complete records at the beginning of b.
func wholeRecords(b []byte) (n int64) {
	for len(b) >= recordHeaderSize {
		size := recordHeaderSize + int(b[3])<<8 + int(b[4])
		if size > len(b) {
			break
		}
		n += int64(size)
		b = b[size:]
	}
	return n
}

func (c *tlsCase) checkTimes(t *testing.T, version uint16, s tlsSession, w *tlsWatch) {
	t.Helper()
	if w.helloWritten() != s.flow[0].entry {
		t.Error("helloWritten is not the entry of the first write")
	}
	if s.err != nil {
		if w.ended().Known() {
			t.Error("a failed handshake has an end")
		}
		return
	}
	// The end is the last I/O of the handshake, which is a write of the client in TLS 1.3 and in the abbreviated form.
	var last tlsChunk
	for _, chunk := range s.flow {
		if chunk.ret <= s.returns {
			last = chunk
		}
	}
	if w.ended() != last.ret || last.out != (version == tls.VersionTLS13 || s.state.DidResume) {
		t.Errorf("ended %v, last I/O returned %v (a write: %v)", w.ended(), last.ret, last.out)
	}
	if w.ended() > s.returns || w.serverHello() >= w.ended() || w.helloWritten() >= w.serverHello() || s.started > w.helloWritten() {
		t.Errorf("out of order: started %v, hello %v, server hello %v, ended %v, returned %v",
			s.started, w.helloWritten(), w.serverHello(), w.ended(), s.returns)
	}
}

// BenchmarkTLSWatch is what watching adds to one handshake, the reading of the clock apart.
func BenchmarkTLSWatch(b *testing.B) {
	flow := flowOf(out(plain(hello(tlsExtension(extensionKeyShare, make([]byte, 1300)...)))),
		serverFlight(aes128), out(changeCipherSpec(), protected(53)))
	b.ReportAllocs()
	for b.Loop() {
		var w tlsWatch
		for _, c := range flow {
			if c.out {
				w.wrote(c.b, c.entry, c.ret)
			} else {
				w.read(c.b, c.entry, c.ret)
			}
		}
		if !w.done() {
			b.Fatal("not done")
		}
	}
}

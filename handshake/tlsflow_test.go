package handshake

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// tlsChunk is one Write (out) or Read of a client.
type tlsChunk struct {
	out        bool
	b          []byte
	entry, ret profiler.Instant
}

// tlsFlow is what a client wrote and read, in order.
type tlsFlow []tlsChunk

// tlsRecorder is a net.Conn that keeps the flow.
type tlsRecorder struct {
	net.Conn
	mu   sync.Mutex
	flow tlsFlow
}

func (c *tlsRecorder) Write(b []byte) (int, error) {
	entry := profiler.Now()
	n, err := c.Conn.Write(b)
	c.keep(true, b[:n], entry)
	return n, err
}

func (c *tlsRecorder) Read(b []byte) (int, error) {
	entry := profiler.Now()
	n, err := c.Conn.Read(b)
	c.keep(false, b[:n], entry)
	return n, err
}

func (c *tlsRecorder) keep(out bool, b []byte, entry profiler.Instant) {
	ret := profiler.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) > 0 {
		c.flow = append(c.flow, tlsChunk{out, bytes.Clone(b), entry, ret})
	}
}

// tlsSession is one handshake of crypto/tls with itself and, if it went well, one request and its reply.
type tlsSession struct {
	flow             tlsFlow
	state            tls.ConnectionState
	err              error         // of the client's handshake
	late             error         // of the client's first Read after it
	offered          []tls.CurveID // what the server took from the ClientHello
	started, returns profiler.Instant
}

func runTLS(t *testing.T, client, server *tls.Config) tlsSession {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var offered []tls.CurveID
	server = server.Clone()
	server.GetConfigForClient = func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = i.SupportedCurves
		return nil, nil
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		conn := tls.Server(nc, server)
		if conn.Handshake() != nil {
			io.Copy(io.Discard, nc) // let the client read the alert before the reset
			return
		}
		if _, err := io.ReadFull(conn, make([]byte, 4)); err == nil {
			conn.Write([]byte("reply"))
		}
		io.Copy(io.Discard, conn)
	}()

	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	rec := &tlsRecorder{Conn: nc}
	conn := tls.Client(rec, client)
	s := tlsSession{started: profiler.Now()}
	s.err = conn.HandshakeContext(t.Context())
	s.returns = profiler.Now()
	s.state = conn.ConnectionState()
	if s.err == nil {
		_, err := conn.Write([]byte("ping"))
		_, s.late = io.ReadFull(conn, make([]byte, 5))
		s.late = errors.Join(err, s.late)
	}
	nc.Close()
	<-served
	s.flow, s.offered = rec.flow, offered
	return s
}

// tlsSeen is all that a watcher says which must not depend on how the bytes were cut.
type tlsSeen struct {
	Info                                 profiler.TLSInfo
	Done, GaveUp, Settled, Refused       bool
	HelloWritten, ServerHello, HasEnding bool
}

// watch feeds a flow to a new watcher as a conn would.
func (f tlsFlow) watch() (*tlsWatch, tlsSeen) {
	w := new(tlsWatch)
	var refused bool
	if len(f) > 0 {
		w.start(f[0].entry)
	}
	for _, c := range f {
		switch {
		case !w.done() && c.out:
			w.wrote(c.b, c.entry, c.ret)
		case !w.done():
			w.read(c.b, c.entry, c.ret)
		case !c.out && !w.settled():
			refused = w.afterRead(c.b)
		}
	}
	if w.afterRead(nil) { // what the last read held beyond the handshake
		refused = true
	}
	return w, tlsSeen{
		w.info(), w.done(), w.gaveUp(), w.settled(), refused,
		w.helloWritten().Known(), w.serverHello().Known(), w.ended().Known(),
	}
}

// cut splits every chunk into pieces whose sizes size gives.
func (f tlsFlow) cut(size func() int) (pieces tlsFlow) {
	for _, c := range f {
		for len(c.b) > 0 {
			n := min(max(size(), 1), len(c.b))
			pieces = append(pieces, tlsChunk{c.out, c.b[:n], c.entry, c.ret})
			c.b = c.b[n:]
		}
	}
	return pieces
}

// merge joins neighbours of one direction.
func (f tlsFlow) merge() (merged tlsFlow) {
	for _, c := range f {
		if n := len(merged); n > 0 && merged[n-1].out == c.out {
			last := &merged[n-1]
			last.b, last.ret = append(last.b, c.b...), c.ret
			continue
		}
		c.b = bytes.Clone(c.b)
		merged = append(merged, c)
	}
	return merged
}

// cuts are the ways a flow is replayed; each must give what the flow itself gives.
func (f tlsFlow) cuts(seed uint64) map[string]tlsFlow {
	rng := mrand.New(mrand.NewPCG(seed, 1))
	return map[string]tlsFlow{
		"byte by byte":        f.cut(func() int { return 1 }),
		"in sevens":           f.cut(func() int { return 7 }),
		"in small pieces":     f.cut(func() int { return rng.IntN(64) }),
		"in large pieces":     f.cut(func() int { return rng.IntN(4096) }),
		"merged":              f.merge(),
		"merged and cut anew": f.merge().cut(func() int { return rng.IntN(300) }),
	}
}

// tlsCert makes a certificate for localhost and 127.0.0.1 that signs itself, with padding bytes of an extension nobody reads.
func tlsCert(key crypto.Signer, padding int) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "handshake test"},
		NotBefore:             time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), // the clock of a bubble stands in 2000
		NotAfter:              time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
		DNSNames: []string{"localhost"},
	}
	if padding > 0 {
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, padding)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

var (
	ecdsaKey = sync.OnceValue(func() crypto.Signer {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return k
	})
	ecdsaCert = sync.OnceValue(func() tls.Certificate { return tlsCert(ecdsaKey(), 0) })
	largeCert = sync.OnceValue(func() tls.Certificate { return tlsCert(ecdsaKey(), 30<<10) })
	rsaCert   = sync.OnceValue(func() tls.Certificate {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return tlsCert(k, 0)
	})
)

func tlsPool(certs ...tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c.Leaf)
	}
	return pool
}

// Package certtest makes certificates for test servers: an authority, what it issues to servers and to clients, and their
// PEM files for servers that are processes of their own.
//
// It is for tests and examples only. Nothing in it is kept on disk unless asked for, and each authority lives as long as
// the process that made it. What can only fail through a mistake in the test panics.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ocsp"
)

// Key is the kind of a private key. The zero value is ECDSA, which is made in microseconds; RSA takes tens of milliseconds.
type Key int

const (
	ECDSA Key = iota // on P-256
	RSA              // of 2048 bits
)

// CA is a certificate authority. It is safe for concurrent use.
type CA struct {
	Cert *x509.Certificate // self-signed
	PEM  []byte            // Cert, as a CA file holds it
	key  crypto.Signer
}

// NewCA makes an authority with a new key of kind k, valid from an hour ago for a day.
func NewCA(k Key) *CA {
	t := template("connprof test CA")
	t.IsCA = true
	t.BasicConstraintsValid = true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key := newKey(k)
	der := must(x509.CreateCertificate(rand.Reader, t, t, key.Public(), key))
	return &CA{Cert: must(x509.ParseCertificate(der)), PEM: encode("CERTIFICATE", der), key: key}
}

// Pool returns a new pool that holds this authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// WriteFile writes the authority's certificate to the file path, as PEM.
func (ca *CA) WriteFile(path string) error { return os.WriteFile(path, ca.PEM, 0o644) }

// OCSPGood is the answer of a responder (RFC 6960) that c, which ca has issued, is not revoked. It says that newer answers are always to be had,
// so that nobody keeps it.
func (ca *CA) OCSPGood(c *x509.Certificate) []byte {
	return must(ocsp.CreateResponse(ca.Cert, ca.Cert, ocsp.Response{Status: ocsp.Good, SerialNumber: c.SerialNumber, ThisUpdate: ca.Cert.NotBefore}, ca.key))
}

// Leaf says what to issue. Its zero value is a server's certificate for this machine, valid now.
type Leaf struct {
	Names   []string // host names and IP addresses; none means localhost, 127.0.0.1 and ::1
	Key     Key
	Client  bool   // for a client to show, not for a server; Names may then stay empty, and none is filled in
	Subject string // the common name; empty means "connprof test server", or "… client"
	Expired bool   // was valid until an hour ago

	OCSPServer string // the URL of the responder that the certificate names; empty means none
}

// Cert is an issued certificate and its key.
type Cert struct {
	TLS     tls.Certificate // the leaf alone in its chain, parsed
	CertPEM []byte
	KeyPEM  []byte // PKCS #8
}

// Issue makes a new key and a certificate for it.
func (ca *CA) Issue(l Leaf) *Cert {
	t := template("connprof test server")
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	names := l.Names
	if l.Client {
		t.Subject.CommonName = "connprof test client"
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	} else if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1", "::1"}
	}
	if l.Key == RSA {
		t.KeyUsage |= x509.KeyUsageKeyEncipherment // TLS 1.2's key exchange without (EC)DHE
	}
	if l.Subject != "" {
		t.Subject.CommonName = l.Subject
	}
	if l.Expired {
		t.NotBefore, t.NotAfter = t.NotBefore.Add(-24*time.Hour), t.NotBefore
	}
	if l.OCSPServer != "" {
		t.OCSPServer = []string{l.OCSPServer}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}

	key := newKey(l.Key)
	der := must(x509.CreateCertificate(rand.Reader, t, ca.Cert, key.Public(), ca.key))
	return &Cert{
		TLS:     tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: must(x509.ParseCertificate(der))},
		CertPEM: encode("CERTIFICATE", der),
		KeyPEM:  encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))),
	}
}

// WriteFiles writes name.pem and name-key.pem into the folder dir, the key readable to its owner only.
func (c *Cert) WriteFiles(dir, name string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	if err := os.WriteFile(certFile, c.CertPEM, 0o644); err != nil {
		return "", "", err
	}
	if err := os.WriteFile(keyFile, c.KeyPEM, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, nil
}

// template has what every certificate of this package shares. A nil serial number makes CreateCertificate draw one.
func template(name string) *x509.Certificate {
	start := time.Now().Add(-time.Hour)
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: start, NotAfter: start.Add(24 * time.Hour)}
}

func newKey(k Key) crypto.Signer {
	if k == RSA {
		return must(rsa.GenerateKey(rand.Reader, 2048))
	}
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("certtest: " + err.Error())
	}
	return v
}

package embedded

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// certificates are an authority and one server certificate of it, made once a process and shared by its servers.
type certificates struct {
	pool   *x509.CertPool  // what a client has to trust
	server tls.Certificate // RSA-2048, for 127.0.0.1, localhost and the far end of an emulated network

	caPEM, certPEM, keyPEM []byte
}

// makeCertificates takes the time of making two RSA keys when first called.
var makeCertificates = sync.OnceValues(func() (*certificates, error) {
	caKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	serverKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "connprof example authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	caDER, err := sign(ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 77, 0, 2)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := sign(leaf, ca, serverKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &certificates{
		pool:    pool,
		server:  tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: serverKey},
		caPEM:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
})

// sign issues a certificate valid from an hour ago, for clocks that differ, for a day.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

func (c *certificates) caFile(dir string) string   { return filepath.Join(dir, "ca.pem") }
func (c *certificates) certFile(dir string) string { return filepath.Join(dir, "server.pem") }
func (c *certificates) keyFile(dir string) string  { return filepath.Join(dir, "server-key.pem") }

// writeTo puts the files into dir, readable by this user only.
func (c *certificates) writeTo(dir string) error {
	for path, content := range map[string][]byte{
		c.caFile(dir): c.caPEM, c.certFile(dir): c.certPEM, c.keyFile(dir): c.keyPEM,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("write certificates: %w", err)
		}
	}
	return nil
}

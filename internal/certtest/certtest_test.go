package certtest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestIssuedCertificatesAreGoodForAHandshake(t *testing.T) {
	tests := []struct {
		name       string
		ca, key    Key
		leaf       Leaf
		serverName string
		wantErr    bool
	}{
		{name: "localhost by default", leaf: Leaf{}, serverName: "localhost"},
		{name: "the loopback address by default", leaf: Leaf{}, serverName: "127.0.0.1"},
		{name: "RSA under RSA", ca: RSA, leaf: Leaf{Key: RSA}, serverName: "localhost"},
		{name: "a name of one's own", leaf: Leaf{Names: []string{"db.test"}}, serverName: "db.test"},
		{name: "another name is refused", leaf: Leaf{Names: []string{"db.test"}}, serverName: "localhost", wantErr: true},
		{name: "expired is refused", leaf: Leaf{Expired: true}, serverName: "localhost", wantErr: true},
		{name: "a client's is refused for a server", leaf: Leaf{Client: true, Names: []string{"localhost"}},
			serverName: "localhost", wantErr: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ca := NewCA(test.ca)
			server := &tls.Config{Certificates: []tls.Certificate{ca.Issue(test.leaf).TLS}}
			err := handshake(t, server, &tls.Config{RootCAs: ca.Pool(), ServerName: test.serverName})
			if test.wantErr {
				if cv := (*tls.CertificateVerificationError)(nil); !errors.As(err, &cv) {
					t.Fatalf("handshake: %v, want a verification error", err)
				}
			} else if err != nil {
				t.Fatalf("handshake: %v", err)
			}
		})
	}
}

func TestClientCertificateSatisfiesAServerThatAsksForOne(t *testing.T) {
	ca := NewCA(ECDSA)
	server := &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(Leaf{}).TLS},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    ca.Pool(),
	}
	client := &tls.Config{
		RootCAs:      ca.Pool(),
		ServerName:   "localhost",
		Certificates: []tls.Certificate{ca.Issue(Leaf{Client: true}).TLS},
	}
	if err := handshake(t, server, client); err != nil {
		t.Fatal(err)
	}
}

func TestWrittenFilesLoad(t *testing.T) {
	dir := t.TempDir()
	ca := NewCA(ECDSA)
	if err := ca.WriteFile(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := ca.Issue(Leaf{Key: RSA}).WriteFiles(dir, "server")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		t.Fatal("ca.pem holds no certificate")
	}
}

// handshake runs both sides over loopback and returns the client's error, or else the server's.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.(*tls.Conn).Handshake()
			c.Close()
		}
		done <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		c.Read(make([]byte, 1)) // TLS 1.3: the server still has the client's certificate to judge
		c.Close()
	}
	if serverErr := <-done; err == nil {
		err = serverErr
	}
	return err
}

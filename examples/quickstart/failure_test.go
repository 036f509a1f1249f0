package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/internal/certtest"
)

// listen serves every connection on a loopback port with handle, until the test ends.
func listen(t *testing.T, handle func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			serving.Go(func() { handle(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}

// silent takes the connection and says nothing.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// webServer greets like a server of another protocol, whatever it is asked.
func webServer(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	c.Close()
}

// refused is where nothing listens: not a port that was free a moment ago, since another test's server may have it by now.
const refused = "127.0.0.1:1"

// withCertificate speaks TLS and shows c.
func withCertificate(c *certtest.Cert) func(net.Conn) {
	return func(conn net.Conn) {
		server := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{c.TLS}, MinVersion: tls.VersionTLS12})
		_ = server.Handshake()
		server.Close()
	}
}

func TestBadInputIsOneErrorWithPhaseAndAdvice(t *testing.T) {
	sql, err := embedded.StartMySQL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sql.Close()
	documents, err := embedded.StartMongo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer documents.Close()
	ca, other := certtest.NewCA(certtest.ECDSA), certtest.NewCA(certtest.ECDSA)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := ca.WriteFile(caFile); err != nil {
		t.Fatal(err)
	}
	overTLS := func(address string) string {
		return "mongodb://" + address + "/?" + url.Values{"tls": {"true"}, "tlsCAFile": {caFile}}.Encode()
	}
	dsn := func(user, password, address, options string) string {
		return fmt.Sprintf("%s:%s@tcp(%s)/%s%s", user, password, address, embedded.Database, options)
	}
	for _, test := range []struct {
		name        string
		flag, value string
		wants       []string
	}{
		{"mysql, nothing listens", "-mysql", dsn("u", "p", refused, ""),
			[]string{"quickstart: mysql: ", "phase connect", "refused", "check host, port"}},
		{"mysql, a wrong password", "-mysql", dsn(embedded.NativeUser, "wrong", sql.Addr, ""),
			[]string{"phase auth", "Access denied", "check user, password"}},
		{"mysql, an untrusted certificate", "-mysql", dsn(embedded.NativeUser, "wrong", sql.Addr, "?tls=true"),
			[]string{"phase tls", "unknown authority", "give it the CA"}},
		{"mysql, TLS from a server without it", "-mysql", dsn("u", "p", listen(t, plainMySQL), "?tls=true"),
			[]string{"phase greet", "check that the port is the database's, and that it offers TLS"}},
		{"mysql, another protocol", "-mysql", dsn("u", "p", listen(t, webServer), ""),
			[]string{"phase greet", "check that the port is the database's"}},
		{"mysql, a server that hangs", "-mysql", dsn("u", "p", listen(t, silent), ""),
			[]string{"phase greet", "said nothing"}},
		{"mongodb, nothing listens", "-mongo", "mongodb://" + refused,
			[]string{"quickstart: mongodb: ", "phase connect", "refused", "check host, port"}},
		{"mongodb, a login the server does not have", "-mongo", "mongodb://u:secret@" + documents.Addr,
			[]string{"phase auth", "check user, password"}},
		{"mongodb, an untrusted certificate", "-mongo", overTLS(listen(t, withCertificate(other.Issue(certtest.Leaf{})))),
			[]string{"phase tls", "unknown authority", "give it the CA"}},
		{"mongodb, an expired certificate", "-mongo", overTLS(listen(t, withCertificate(ca.Issue(certtest.Leaf{Expired: true})))),
			[]string{"phase tls", "expired", "renew it"}},
		{"mongodb, TLS to a port without it", "-mongo", overTLS(documents.Addr), []string{"phase tls"}},
		{"mongodb, another protocol", "-mongo", "mongodb://" + listen(t, webServer),
			[]string{"phase hello", "check that the port is the database's"}},
		{"mongodb, a server that hangs", "-mongo", "mongodb://" + listen(t, silent),
			[]string{"phase hello", "did not answer in time"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			start := time.Now()
			code := run(t.Context(), []string{test.flag, test.value, "-timeout", "700ms", "-json"}, &stdout, &stderr)
			if code != exitFailed {
				t.Errorf("exit code %d, want %d", code, exitFailed)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			text := stderr.String()
			for _, want := range test.wants {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %q", want, text)
				}
			}
			if strings.Count(text, "\n") != 1 || strings.Contains(text, "secret") || stdout.Len() > 0 {
				t.Errorf("want one line without a password and nothing on stdout: %q, %q", text, &stdout)
			}
		})
	}
}

// plainMySQL greets as a MySQL server that has no TLS (protocol version 10, CLIENT_SSL not set).
func plainMySQL(c net.Conn) {
	payload := []byte("\x0a8.0.0\x00\x01\x00\x00\x0012345678\x00\xff\xf7\x21\x02\x00\x00\x00\x15" + strings.Repeat("\x00", 10) +
		"123456789012\x00mysql_native_password\x00")
	_, _ = c.Write(append([]byte{byte(len(payload)), 0, 0, 0}, payload...))
	silent(c)
}

// One database that fails does not keep the other from being measured.
func TestOneFailureLeavesTheOther(t *testing.T) {
	documents, err := embedded.StartMongo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer documents.Close()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-mysql", "u:p@tcp(" + refused + ")/d", "-mongo", documents.URI(true), "-iterations", "3"}, &stdout, &stderr)
	if code != exitFailed || strings.Count(stderr.String(), "\n") != 1 || !strings.HasPrefix(stderr.String(), "quickstart: mysql: ") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
	if !strings.Contains(stdout.String(), "MongoDB · 127.0.0.1:") || strings.Contains(stdout.String(), "MySQL") {
		t.Errorf("stdout is\n%s", &stdout)
	}
}

func TestOneLineIsPrintableAndBounded(t *testing.T) {
	if got := oneLine("a\x1b[2Jb\r\n  c"); got != "a [2Jb c" {
		t.Errorf("oneLine = %q", got)
	}
	if got := oneLine(strings.Repeat("x", 1000)); len([]rune(got)) != 401 {
		t.Errorf("oneLine of 1000 has %d", len([]rune(got)))
	}
}

func TestAnUnknownNameIsNoSyntaxError(t *testing.T) {
	const uri = "mongodb+srv://me:secret@cluster0.example.test/"
	dns := fmt.Errorf("error parsing uri: %w", &net.DNSError{Err: "no such host", Name: "_mongodb._tcp.cluster0.example.test", IsNotFound: true})
	for err, want := range map[error]string{
		dns:                            "resolver knows its SRV record",
		errors.New("unescaped @ sign"): "check its syntax",
	} {
		got := unusable(err, uri).Error()
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%v: got %q, want %q in it", err, got, want)
		}
	}
}

package profiler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestErrorsHaveFewClasses(t *testing.T) {
	driver := errors.New("driver: invalid connection")
	for _, tt := range []struct {
		cr   Create
		want ErrorClass
	}{
		{Create{}, ClassNone},
		{Create{Err: driver}, ClassOther},
		{Create{Err: context.Canceled, Outcome: Canceled, Failed: TLS}, ClassCanceled},
		{Create{Err: driver, Cause: os.ErrDeadlineExceeded, Failed: Greet}, ClassTimeout},
		{Create{Err: &net.DNSError{IsTimeout: true}, Failed: Resolve}, ClassTimeout},
		{Create{Err: fmt.Errorf("wrapped: %w", &net.DNSError{IsNotFound: true}), Failed: Resolve}, ClassNotFound},
		{Create{Err: &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, Failed: Connect}, ClassRefused},
		{Create{Err: syscall.ENETUNREACH, Failed: Connect}, ClassUnreachable},
		{Create{Err: driver, Cause: io.EOF, Failed: Auth}, ClassClosed},
		{Create{Err: driver, Cause: syscall.ECONNRESET, Failed: Auth}, ClassReset},
		{Create{Err: driver, Cause: errors.New("strange"), Failed: Auth}, ClassOther},
		{Create{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Failed: TLS}, ClassUnknownAuthority},
		{Create{Err: x509.HostnameError{Certificate: new(x509.Certificate)}, Failed: TLS}, ClassWrongName},
		{Create{Err: x509.CertificateInvalidError{Reason: x509.Expired}, Failed: TLS}, ClassExpired},
		{Create{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, Failed: TLS}, ClassBadCertificate},
		{Create{Err: &tls.CertificateVerificationError{Err: driver}, Failed: TLS}, ClassBadCertificate},
		{Create{Err: tls.RecordHeaderError{}, Failed: TLS}, ClassProtocol},
		{Create{Err: driver, Failed: TLS, TLS: TLSInfo{Alert: 70}}, ClassAlert},
		{Create{Err: driver, Failed: TLS, TLS: TLSInfo{Alert: 70, AlertSent: true}}, ClassProtocol},
		{Create{Err: driver, Cause: io.EOF, Failed: TLS, TLS: TLSInfo{AlertEncrypted: true, ClientCert: true}}, ClassClientCertificate},
		{Create{Err: driver, Failed: Greet}, ClassProtocol},
		{Create{Err: driver, Outcome: Timeout, Failed: Greet, Wire: Wire{Mismatch: true}}, ClassProtocol},
		{Create{Err: driver, Cause: io.EOF, Failed: Hello, Wire: Wire{Mismatch: true}}, ClassProtocol},
		{Create{Err: context.Canceled, Outcome: Canceled, Failed: Greet, Wire: Wire{Mismatch: true}}, ClassProtocol},
		{Create{Err: driver, Failed: Greet, Wire: Wire{ServerError: ServerError{Code: 1040}}}, ClassRejected},
		{Create{Err: driver, Cause: io.EOF, Failed: Auth, Wire: Wire{ServerError: ServerError{State: [5]byte([]byte("28P01"))}}}, ClassRejected},
		{Create{Err: driver, Failed: AuthSetup}, ClassRejected},
		{Create{Err: driver, Failed: Hello}, ClassRejected},
		{Create{Err: driver, Failed: Verify}, ClassOther},
	} {
		if got := ClassOf(&tt.cr); got != tt.want {
			t.Errorf("%v, %v, failed in %v: class %q, want %q", tt.cr.Err, tt.cr.Cause, tt.cr.Failed, got, tt.want)
		}
	}
	if got := ClassOf(nil); got != ClassNone {
		t.Errorf("of nil: %q", got)
	}
}

func TestAFailedCreateIsReportedWithItsClass(t *testing.T) {
	var p Profiler
	fail := func(phase Phase, err error, n int) {
		for range n {
			c := p.NewConn(orders, RolePool)
			c.Update(func(cr *Create) { cr.Failed = phase })
			c.Fail(noContext, err)
			if cr := c.Create(); cr.Class != ClassOf(cr) || cr.Class == ClassNone {
				t.Errorf("%v is of class %q", err, cr.Class)
			}
		}
	}
	fail(Auth, errors.New("Error 1045 (28000): Access denied"), 2)
	fail(Connect, syscall.ECONNREFUSED, 1)
	before := p.Report()
	fail(Auth, errors.New("Error 1045 (28000): Access denied"), 1)
	fail(Auth, io.EOF, 3)
	c := p.NewConn(orders, RolePool)
	c.Ready(noContext)
	if got := c.Create().Class; got != ClassNone || got.String() != "" {
		t.Errorf("a create that went well is of class %q", got)
	}
	r := p.Report()
	want := []FailureCount{{"connect", "refused", 1}, {"auth", "closed", 3}, {"auth", "rejected", 3}}
	if got := r.Endpoints[0].Failures; !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if got, want := r.Sub(before).Endpoints[0].Failures, []FailureCount{{"auth", "closed", 3}, {"auth", "rejected", 1}}; !slices.Equal(got, want) {
		t.Errorf("since then %v, want %v", got, want)
	}
	b, err := json.Marshal(r.Failures)
	if err != nil || strings.Count(string(b), `"class":"rejected"`) != 3 || strings.Count(string(b), `"class":"refused"`) != 1 {
		t.Errorf("%s %v", b, err)
	}
	for _, said := range []string{"refused in connect after", "closed in auth after", "rejected in auth after"} {
		if !strings.Contains(r.String(), said) {
			t.Errorf("the text lacks %q:\n%v", said, r)
		}
	}
}

func TestAFailureSaysWhy(t *testing.T) {
	for want, f := range map[string]Failure{
		"rejected": {Class: "rejected", Outcome: "error"},
		"error":    {Class: "other", Outcome: "error"},
		"canceled": {Outcome: "canceled"}, // of a Report that is older
	} {
		if got := f.Why(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

func TestTheNamesOfClassesAreTheirOwn(t *testing.T) {
	seen := make(map[string]bool)
	for c := ClassNone; c < numClasses; c++ {
		if seen[c.String()] {
			t.Errorf("two classes are called %q", c)
		}
		seen[c.String()] = true
	}
	if numClasses.String() != "invalid" {
		t.Errorf("there is a class %q", numClasses)
	}
}

package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/connprof/connprof/profiler"
)

func TestErrorsHaveFewClasses(t *testing.T) {
	driver := errors.New("driver: invalid connection")
	for _, tt := range []struct {
		cr   profiler.Create
		want ErrorClass
	}{
		{profiler.Create{}, ClassNone},
		{profiler.Create{Err: driver}, ClassOther},
		{profiler.Create{Err: context.Canceled, Outcome: profiler.Canceled, Failed: profiler.TLS}, ClassCanceled},
		{profiler.Create{Err: driver, Cause: os.ErrDeadlineExceeded, Failed: profiler.Greet}, ClassTimeout},
		{profiler.Create{Err: &net.DNSError{IsTimeout: true}, Failed: profiler.Resolve}, ClassTimeout},
		{profiler.Create{Err: fmt.Errorf("wrapped: %w", &net.DNSError{IsNotFound: true}), Failed: profiler.Resolve}, ClassNotFound},
		{profiler.Create{Err: &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, Failed: profiler.Connect}, ClassRefused},
		{profiler.Create{Err: syscall.ENETUNREACH, Failed: profiler.Connect}, ClassUnreachable},
		{profiler.Create{Err: driver, Cause: io.EOF, Failed: profiler.Auth}, ClassClosed},
		{profiler.Create{Err: driver, Cause: syscall.ECONNRESET, Failed: profiler.Auth}, ClassReset},
		{profiler.Create{Err: driver, Cause: errors.New("strange"), Failed: profiler.Auth}, ClassOther},
		{profiler.Create{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Failed: profiler.TLS}, ClassUnknownAuthority},
		{profiler.Create{Err: x509.HostnameError{Certificate: new(x509.Certificate)}, Failed: profiler.TLS}, ClassWrongName},
		{profiler.Create{Err: x509.CertificateInvalidError{Reason: x509.Expired}, Failed: profiler.TLS}, ClassExpired},
		{profiler.Create{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, Failed: profiler.TLS}, ClassBadCertificate},
		{profiler.Create{Err: &tls.CertificateVerificationError{Err: driver}, Failed: profiler.TLS}, ClassBadCertificate},
		{profiler.Create{Err: tls.RecordHeaderError{}, Failed: profiler.TLS}, ClassProtocol},
		{profiler.Create{Err: driver, Failed: profiler.TLS, TLS: profiler.TLSInfo{Alert: 70}}, ClassAlert},
		{profiler.Create{Err: driver, Failed: profiler.TLS, TLS: profiler.TLSInfo{Alert: 70, AlertSent: true}}, ClassProtocol},
		{profiler.Create{Err: driver, Cause: io.EOF, Failed: profiler.TLS, TLS: profiler.TLSInfo{AlertEncrypted: true, ClientCert: true}}, ClassClientCertificate},
		{profiler.Create{Err: driver, Failed: profiler.Greet}, ClassProtocol},
		{profiler.Create{Err: driver, Failed: profiler.AuthSetup}, ClassRejected},
		{profiler.Create{Err: driver, Failed: profiler.Hello}, ClassRejected},
		{profiler.Create{Err: driver, Failed: profiler.Verify}, ClassOther},
	} {
		if got := ClassOf(&tt.cr); got != tt.want {
			t.Errorf("%v, %v, failed in %v: class %q, want %q", tt.cr.Err, tt.cr.Cause, tt.cr.Failed, got, tt.want)
		}
	}
	if got := ClassOf(nil); got != ClassNone {
		t.Errorf("of nil: %q", got)
	}
}

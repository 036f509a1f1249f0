package profiler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// ErrorClass says in one of few words why a create failed, where the text of an error has too many: for a metric's attribute, or to count
// failures by. Together with Create.Failed it tells a refused connect from a refused login.
type ErrorClass uint8

const (
	// ClassNone is the class of a create that did not fail.
	ClassNone ErrorClass = iota
	// ClassCanceled: the caller gave up.
	ClassCanceled
	// ClassTimeout: a deadline passed, the caller's or the connection's or the resolver's.
	ClassTimeout
	// ClassNotFound: the name does not exist.
	ClassNotFound
	// ClassRefused: nothing listens.
	ClassRefused
	// ClassUnreachable: no route to the host or its network.
	ClassUnreachable
	// ClassClosed: the other side ended the connection in order.
	ClassClosed
	// ClassReset: the connection broke.
	ClassReset
	// ClassUnknownAuthority, ClassWrongName, ClassExpired and ClassBadCertificate: the client refused the server's certificate.
	ClassUnknownAuthority
	ClassWrongName
	ClassExpired
	ClassBadCertificate
	// ClassClientCertificate: the server refused the client's certificate, or the lack of one.
	ClassClientCertificate
	// ClassAlert: the server refused the handshake for another reason, such as no common version.
	ClassAlert
	// ClassProtocol: what came was not what the protocol says: no TLS, another protocol (Wire.Protocol), TLS not offered. It counts where a
	// deadline, a close or the driver's giving up ended a create that had begun like this.
	ClassProtocol
	// ClassRejected: the server said no: with an error of its own in place of a greeting (too many connections), to the login, or to a
	// statement after it. Wire.ServerError has its code where it was in the clear.
	ClassRejected
	// ClassOther is none of these.
	ClassOther
	numClasses
)

var classNames = [numClasses]string{
	"", "canceled", "timeout", "not_found", "refused", "unreachable", "closed", "reset", "unknown_authority", "wrong_name", "expired",
	"bad_certificate", "client_certificate", "alert", "protocol", "rejected", "other",
}

// String is the class's name, as reports and attributes carry it; "" for ClassNone.
func (c ErrorClass) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return "invalid"
}

// ClassOf is why cr failed; ClassNone for a nil one. The wire's own error counts where the driver's says less. It reads no text of an error.
// Create.Class holds it for a create that a Profiler reports.
func ClassOf(cr *Create) ErrorClass {
	if cr == nil || cr.Err == nil {
		return ClassNone
	}
	err := errors.Join(cr.Err, cr.Cause)
	if c := certificateClass(err); c != ClassNone {
		return c
	}
	if t := cr.TLS; cr.Failed == TLS && !t.AlertSent && (t.Alert != 0 || t.AlertEncrypted) {
		if t.ClientCert {
			return ClassClientCertificate
		}
		return ClassAlert
	}
	var dns *net.DNSError
	var record tls.RecordHeaderError
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	switch {
	case cr.Wire.Mismatch: // before what ended the wait for something better
		return ClassProtocol
	case cr.Wire.ServerError != ServerError{}:
		return ClassRejected
	case cr.Outcome == Canceled:
		return ClassCanceled
	case cr.Outcome == Timeout, timeout(err):
		return ClassTimeout
	case errors.As(err, &dns) && dns.IsNotFound:
		return ClassNotFound
	case is(syscall.ECONNREFUSED):
		return ClassRefused
	case is(syscall.EHOSTUNREACH, syscall.ENETUNREACH):
		return ClassUnreachable
	case errors.As(err, &record):
		return ClassProtocol
	case is(syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED):
		return ClassReset
	case is(io.EOF, io.ErrUnexpectedEOF):
		return ClassClosed
	case cr.Cause != nil:
		return ClassOther
	}
	switch cr.Failed { // the connection held: it was what the server said
	case Greet, TLS:
		return ClassProtocol
	case Hello, Auth, Setup, AuthSetup:
		return ClassRejected
	}
	return ClassOther
}

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// certificateClass is why the client refused the server's certificate.
func certificateClass(err error) ErrorClass {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var bad *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unknown):
		return ClassUnknownAuthority
	case errors.As(err, &name):
		return ClassWrongName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return ClassExpired
	case errors.As(err, &invalid), errors.As(err, &bad):
		return ClassBadCertificate
	}
	return ClassNone
}

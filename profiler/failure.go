package profiler

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Advice says what to check about a create that failed: one sentence, from the phase that failed and the error. It is "" for a create that
// did not fail.
func (c *Create) Advice() string {
	if c == nil || c.Err == nil {
		return ""
	}
	err := errors.Join(c.Err, c.Cause)
	eof := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
	switch c.Failed {
	case Hook:
		return "the program's own code before the dial failed: check BeforeConnect or the token it fetches"
	case Resolve:
		return "check the host name and the resolver"
	case Connect, Attempts:
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return "nothing listens there: check host, port, and that the server runs"
		case c.Outcome == Timeout:
			return "no answer to the connect: check the address, firewalls and security groups"
		}
		return "check host and port, and that the server can be reached from here"
	case Greet:
		switch {
		case c.Wire.Mismatch:
			return c.Wire.Protocol.speaks() + ": check that the port is the database's"
		case c.Wire.ServerError != ServerError{}:
			if c.Wire.ServerError.full() {
				return fullAdvice
			}
			return "the server lets this host in no more, or nobody: read its error's text"
		case c.Wire.BytesIn > 0:
		case c.Outcome == Timeout || c.Outcome == Canceled:
			return "the peer took the connection and said nothing: check that the port is the database's, and proxies in between"
		case eof:
			return "the peer closed without a greeting: check that the port is the database's, and the server's connection limit"
		}
		return "the peer's first answer was a refusal, or not the protocol's: read its text, and check that the port is the database's, and that " +
			"it offers TLS if TLS was asked for"
	case TLS:
		var unknown x509.UnknownAuthorityError
		var name x509.HostnameError
		var invalid x509.CertificateInvalidError
		switch {
		case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
			return "the server's certificate is expired or not yet valid: renew it, or check this machine's clock"
		case errors.As(err, &unknown):
			return "the server's certificate is from an authority that the client doesn't trust: give it the CA (RootCAs, tlsCAFile)"
		case errors.As(err, &name):
			return "the server's certificate is for another name: check the host name, or set ServerName"
		case c.TLS.ClientCert && (c.TLS.AlertEncrypted || c.TLS.Alert != 0):
			return "the server refused the client's certificate: check that it is there, valid, and from a CA the server trusts"
		case c.Outcome == Timeout || c.Outcome == Canceled:
			return "the handshake got no answer: check that the port speaks TLS, and for a middlebox that drops large packets"
		case strings.Contains(err.Error(), "first record does not look like a TLS handshake"):
			return "the peer doesn't speak TLS on this port: check the port, or turn TLS off"
		case eof && c.TLS.ServerHello == 0:
			return "the peer closed on the ClientHello: check that the port speaks TLS, or turn TLS off"
		}
		return "check that both sides share a TLS version and cipher suite, and whether the server wants a client certificate"
	case Verify:
		return "TLS was set up, then the client gave up before its first word: check revocation look-ups (OCSP) and channel binding"
	case Hello, Auth, AuthSetup, Setup:
		if c.Wire.Mismatch {
			return c.Wire.Protocol.speaks() + ": check that the port is the database's, and whether it wants TLS"
		}
		if c.Outcome == Timeout || c.Outcome == Canceled {
			return "the server did not answer in time: check its load, and the time-outs"
		}
		if c.Wire.ServerError.full() {
			return fullAdvice
		}
		if c.Failed == Setup {
			return "the driver's own set-up statement failed: check the session variables in the DSN"
		}
		if c.Failed == Hello {
			return "the peer's answer was not the protocol's: check that the port is the database's, and whether it wants TLS"
		}
		return "check user, password, the database's name, and that the server lets this client in"
	}
	var ne *net.OpError
	if errors.As(err, &ne) {
		return "check host and port, and that the server can be reached from here"
	}
	return "check the client's options"
}

const fullAdvice = "the server has no connection left: check its limit, and the sizes of all pools that lead there"

// full reports whether the server refused because of a limit on connections.
func (e ServerError) full() bool {
	switch e.String() {
	case "1040", "1203", "1226", "53300": // MySQL's ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED; PostgreSQL's
		return true
	}
	return false
}

// speaks says of a peer what it is.
func (p Protocol) speaks() string {
	switch p {
	case ProtocolMySQL:
		return "the peer speaks MySQL's protocol"
	case ProtocolPostgreSQL:
		return "the peer speaks PostgreSQL's protocol"
	case ProtocolMongoDB:
		return "the peer speaks MongoDB's protocol"
	case ProtocolTLS:
		return "the peer speaks TLS"
	case ProtocolHTTP:
		return "the peer speaks HTTP"
	case ProtocolSSH:
		return "the peer speaks SSH"
	}
	return "the peer doesn't speak this database's protocol"
}

// adviceFor is Advice where only the phase is known.
func adviceFor(p Phase) string { return (&Create{Err: errFailed, Failed: p}).Advice() }

// failure is what a report keeps of a failed create.
func (c *Conn) failure() Failure {
	cr := c.Create()
	f := Failure{
		Endpoint: c.Endpoint(), Role: c.role.String(), At: cr.Start.Add(cr.Duration), Phase: cr.Failed.String(),
		Outcome: cr.Outcome.String(), Class: cr.Class.String(), Duration: cr.Duration, Error: cr.Err.Error(), Advice: cr.Advice(),
	}
	if p := cr.Wire.Protocol; cr.Wire.Mismatch {
		f.Protocol = p.String()
	}
	f.ServerError = cr.Wire.ServerError.String()
	if cr.Cause != nil && !errors.Is(cr.Err, cr.Cause) {
		f.Cause = cr.Cause.Error()
	}
	return f
}

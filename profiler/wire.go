package profiler

import (
	"strconv"
	"time"
)

// Wire holds what the bytes of a create showed, other than TLS. What went encrypted is unknown: the zero value of its field.
type Wire struct {
	// Transport is what the connection is made of.
	Transport Transport
	// Protocol is what the first bytes of the other side looked like.
	Protocol Protocol
	// AuthMethod is how the login in the clear was made, and AuthPath which way it took.
	AuthMethod AuthMethod
	AuthPath   AuthPath
	// SCRAMIterations is the number that PostgreSQL asked for in the clear (RFC 5802 §5.1, i=): the client's part of it is local computing.
	SCRAMIterations uint32
	// Peer and Local are the addresses of the connection.
	Peer, Local string
	// BytesIn and BytesOut count the bytes of the create below TLS.
	BytesIn, BytesOut int64
	// Turns counts the request/response exchanges after the preamble and TLS up to hand-over: hello, login and set-up.
	Turns int32
	// AuthTurns counts those of Auth (of AuthSetup where the cut is hidden), MongoDB's hello excluded.
	AuthTurns int32
	// SetupTurns counts those of Setup.
	SetupTurns int32
	// ServerError is the first error that the server sent in the clear, before or during the login.
	ServerError ServerError
	// Mismatch says that the first bytes were not what the endpoint's protocol begins with; false while that can't be told.
	Mismatch bool
	// NoDescriptor says that the connection that was dialed hides its file descriptor (it is no syscall.Conn), as a user's own dialer may
	// make it: a driver that looks through it whether an idle connection is still alive, such as go-sql-driver/mysql, then can't.
	NoDescriptor bool
	// AuthWait is the part of Auth (or AuthSetup) spent waiting for the other side: return of a Write to return of the Read that
	// answers it. The rest of the phase is local computing, such as SCRAM's key derivation.
	AuthWait time.Duration
	// ServerVersion is what a plaintext greeting says, such as "10.11.14-MariaDB", or what the driver was told.
	ServerVersion string
}

// Protocol is what the first bytes of the other side looked like, as far as the driver read them.
type Protocol uint8

const (
	// ProtocolUnknown means that nothing came.
	ProtocolUnknown Protocol = iota
	// ProtocolMySQL is a greeting of MySQL's protocol 10, or an error packet in its place.
	ProtocolMySQL
	// ProtocolPostgreSQL is an answer to an SSLRequest, or a message that answers a startup.
	ProtocolPostgreSQL
	// ProtocolMongoDB is a MongoDB message.
	ProtocolMongoDB
	// ProtocolTLS is a TLS record.
	ProtocolTLS
	// ProtocolHTTP and ProtocolSSH are an HTTP/1 response and an SSH banner.
	ProtocolHTTP
	ProtocolSSH
	// ProtocolOther is none of these, or too few bytes to tell.
	ProtocolOther
	numProtocols
)

var protocolNames = [numProtocols]string{"unknown", "mysql", "postgresql", "mongodb", "tls", "http", "ssh", "other"}

// String is the protocol's name.
func (p Protocol) String() string { return nameIn(protocolNames[:], int(p)) }

// AuthMethod is how a server lets a client in: MySQL's plugin, PostgreSQL's authentication request.
type AuthMethod uint8

const (
	// AuthUnknown means that the login was encrypted, or did not get as far.
	AuthUnknown AuthMethod = iota
	// AuthNothing means that PostgreSQL asked for nothing (trust, peer, cert).
	AuthNothing
	// AuthPassword, AuthMD5, AuthSCRAM, AuthGSS and AuthSSPI are PostgreSQL's (protocol §55.2.1).
	AuthPassword
	AuthMD5
	AuthSCRAM
	AuthGSS
	AuthSSPI
	// The others are MySQL's and MariaDB's plugins of these names.
	AuthNativePassword
	AuthCachingSHA2
	AuthSHA256
	AuthClearPassword
	AuthEd25519
	AuthParsec
	AuthDialog
	// AuthOther is none of these.
	AuthOther
	numAuthMethods
)

var authMethodNames = [numAuthMethods]string{
	"unknown", "nothing", "password", "md5", "scram-sha-256", "gss", "sspi", "mysql_native_password", "caching_sha2_password",
	"sha256_password", "mysql_clear_password", "client_ed25519", "parsec", "dialog", "other",
}

// String is the method's name, a plugin's as the server spells it.
func (m AuthMethod) String() string { return nameIn(authMethodNames[:], int(m)) }

// AuthPlugin is the method of a MySQL plugin; AuthOther for a name that is none of those above, AuthUnknown for "".
func AuthPlugin(name string) AuthMethod {
	if name == "" {
		return AuthUnknown
	}
	for m := AuthNativePassword; m < AuthOther; m++ {
		if authMethodNames[m] == name {
			return m
		}
	}
	return AuthOther
}

// AuthPath is which way caching_sha2_password went.
type AuthPath uint8

const (
	// AuthPathUnknown means that the login was encrypted, or of a method with one way only.
	AuthPathUnknown AuthPath = iota
	// AuthFast means that the server knew the password's hash from its cache.
	AuthFast
	// AuthFull means that it did not and asked for the password: one round trip more, two where that is encrypted with the server's key.
	AuthFull
)

// String is "unknown", "fast" or "full".
func (p AuthPath) String() string { return nameIn([]string{"unknown", "fast", "full"}, int(p)) }

// ServerError is the code of an error that a server sent; its text is the driver's to keep. The zero ServerError is none.
type ServerError struct {
	// Code is MySQL's error number, 0 for PostgreSQL.
	Code uint16
	// State is the SQLSTATE, zeros where the server sent none.
	State [5]byte
}

// String is MySQL's error number or PostgreSQL's SQLSTATE, "" for none: what semconv calls db.response.status_code.
func (e ServerError) String() string {
	if e.Code != 0 {
		return strconv.Itoa(int(e.Code))
	}
	return e.SQLState()
}

// SQLState is the five characters of State, "" where there are none.
func (e ServerError) SQLState() string {
	for _, c := range e.State {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return ""
		}
	}
	return string(e.State[:])
}

func nameIn(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "invalid"
}

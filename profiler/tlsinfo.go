package profiler

import (
	"crypto/tls"
	"time"
)

// TLSInfo holds what the records of a handshake showed in the clear, watched from below TLS. Nothing is asked of crypto/tls, and the
// host's tls.Config is not touched.
type TLSInfo struct {
	// Seen says that a ClientHello was written.
	Seen bool
	// Done says that the client's last handshake message went out and, for TLS 1.2 and older, that the server's Finished came in.
	Done bool
	// Inside says that the dialer returned a connection that was already encrypted: TLS took place, inside Connect, unseen.
	Inside bool
	// Alert is the description of a plaintext alert (RFC 8446 §6), 0 if none was seen. AlertSent says that the client sent it.
	// AlertEncrypted says that an alert ended the handshake whose description is encrypted.
	Alert          uint8
	AlertSent      bool
	AlertEncrypted bool
	// Version is the negotiated version (tls.VersionTLS13, ...); 0 until the ServerHello was seen.
	Version uint16
	// Cipher is the negotiated cipher suite.
	Cipher uint16
	// Group is the key exchange group: of the ServerHello's key share (RFC 8446 §4.2.8) or the ServerKeyExchange (RFC 8422 §5.4); 0 if none.
	Group tls.CurveID
	// GroupsOffered are the groups of the first ClientHello, KeyShares those of them that it sent a key for (RFC 8446 §4.2.7, §4.2.8): a
	// server of TLS 1.3 that wants another asks for a second ClientHello.
	GroupsOffered, KeyShares Groups
	// ResumptionOffered says that the client offered a session; Resumed that the server accepted it.
	ResumptionOffered, Resumed bool
	// HelloRetry says that the server asked for a second ClientHello (RFC 8446 §4.1.4): one more round trip.
	HelloRetry bool
	// ClientCert says that the server asked for a certificate in the clear (TLS 1.2) or that the client's last flight was larger
	// than a lone Finished (TLS 1.3), and so held a Certificate message.
	ClientCert bool
	// CertificateAtMost says that CertificateBytes is an upper bound.
	CertificateAtMost bool
	// TicketsAsked says that the client asked for session tickets (RFC 5077 §3.2, RFC 8446 §4.2.9): crypto/tls does where its Config has a
	// ClientSessionCache.
	TicketsAsked bool
	// Tickets says whether the server hands out session tickets.
	Tickets Tickets
	// HelloSize is the size in bytes of the first ClientHello message.
	HelloSize int32
	// CertificateBytes is the size of the server's Certificate message, its chain; 0 where none was seen, as in a resumption. In TLS 1.3
	// that message is encrypted, and this is all that the server encrypted before the client's last flight, record by record less the
	// tag: EncryptedExtensions, Certificate, CertificateVerify and Finished, of which the other three have 100 to 700 bytes.
	CertificateBytes int32
	// ServerName is the server name the client sent (RFC 6066 §3), ALPN the protocols it offered.
	ServerName string
	ALPN       []string
	// HelloWritten is the entry of the write that carried the first byte of the ClientHello, as an offset from Create.Start.
	HelloWritten time.Duration
	// ServerHello is the return of the read that completed the (last) ServerHello, as an offset from Create.Start; 0 if none came. From
	// HelloWritten to it is the network and the server, from it to the end of TLS for the most part the client's computing.
	ServerHello time.Duration
	// BytesIn and BytesOut count the handshake's bytes, record headers included.
	BytesIn, BytesOut int64
}

// Tickets says whether a server hands out session tickets. In TLS 1.3 a ticket can't be told from data by someone who watches from
// below (RFC 8446 §4.6.1 sends it encrypted).
type Tickets uint8

const (
	// TicketsUnknown means that nothing told.
	TicketsUnknown Tickets = iota
	// TicketsLikely means that more protected records came before the first reply than the reply needs.
	TicketsLikely
	// TicketsYes means that a resumption was seen, or a NewSessionTicket in the clear (TLS 1.2, RFC 5077 §3.3).
	TicketsYes
)

var ticketNames = [...]string{"unknown", "likely", "yes"}

// String is "unknown", "likely" or "yes".
func (t Tickets) String() string {
	if int(t) < len(ticketNames) {
		return ticketNames[t]
	}
	return "invalid"
}

// VersionName is "TLS 1.3" and the like, "" where the version is not known.
func (t TLSInfo) VersionName() string {
	if t.Version == 0 {
		return ""
	}
	return tls.VersionName(t.Version)
}

// CipherName is the IANA name of the cipher suite, "" where it is not known.
func (t TLSInfo) CipherName() string {
	if t.Cipher == 0 {
		return ""
	}
	return tls.CipherSuiteName(t.Cipher)
}

// GroupName is the name of the key exchange group, "" where it is not known.
func (t TLSInfo) GroupName() string {
	if t.Group == 0 {
		return ""
	}
	return groupName(t.Group)
}

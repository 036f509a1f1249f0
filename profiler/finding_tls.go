package profiler

import "fmt"

// neverResumed: connections are made again and again, and each pays for a full handshake. Who has to change something is known from the
// ClientHellos alone: whether they ask for tickets, and whether they ever have a session to offer. PostgreSQL's own server hands out no
// tickets (be-secure-openssl.c sets SSL_OP_NO_TICKET), so that asking it for them would change nothing.
func neverResumed(e *EndpointReport) (Finding, bool) {
	const enough = 20
	first, reused := e.Queries()
	t := &e.TLS
	if e.Role != RolePool.String() || t.Handshakes < enough || t.Resumed > 0 || float64(e.Created) < 0.05*float64(first+reused) {
		return Finding{}, false
	}
	f := Finding{
		ID: "tls_never_resumed", Severity: "info", Subject: e.Address, Title: "every new connection pays for a full TLS handshake",
	}
	switch {
	case t.Refused > 0:
		f.Evidence = fmt.Sprintf("the server took none of the %d sessions that were offered to it in %d handshakes", t.Refused, t.Handshakes)
		f.Advice = "where several servers share an address, let them share their ticket keys; else look at how long the server keeps sessions"
	case t.TicketsAsked >= t.Handshakes:
		f.Evidence = fmt.Sprintf("the client asked for tickets in all of %d handshakes and never had one to offer", t.Handshakes)
		f.Advice = "the server offers no resumption (PostgreSQL never does): only fewer new connections help"
	case t.TicketsAsked == 0 && e.System != "postgresql":
		f.Evidence = fmt.Sprintf("the client asked for no ticket in %d handshakes", t.Handshakes)
		f.Advice = "give the client's tls.Config a ClientSessionCache (tls.NewLRUClientSessionCache): a resumed handshake spares both sides the " +
			"certificates, with TLS 1.2 a round trip too; fewer new connections save more"
	default:
		return Finding{}, false
	}
	return f, true
}

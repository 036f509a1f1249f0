package profiler

import (
	"fmt"
	"time"
)

// The findings about what the client itself does while a connection is made, which looks like a slow server.

// verifyIsSlow: the client had its TLS and did not say its first word for long. Nothing is on the way to the server then.
func verifyIsSlow(e *EndpointReport) (Finding, bool) {
	const (
		slow   = 50 * time.Millisecond
		enough = 3
	)
	d := e.phase(Verify)
	if d == nil || d.Quantile(0.5) < slow || d.Count < enough && d.Sum < time.Second {
		return Finding{}, false
	}
	f := Finding{
		ID: "verify_slow", Severity: "warning", Subject: e.Address, Title: "the client waits for something else between TLS and its first word",
		Evidence: fmt.Sprintf("%s at the median of %d creates, after TLS itself had taken %s", round(d.Quantile(0.5)), d.Count,
			round(e.phase(TLS).Quantile(0.5))),
		Advice: "look at what checks the server's certificate after the handshake (VerifyConnection, a revocation look-up): neither TLS nor the server is slow",
	}
	if e.System == "mongodb" {
		f.Advice = "the driver asks the certificate's OCSP responder, for each connection, its monitors' included, and for up to 5 s where that can't be " +
			"reached: let the server staple the answer, let the requests out, or set tlsDisableOCSPEndpointCheck; neither TLS nor the server is slow"
	}
	return f, true
}

// authComputes: most of a login is the client's own computing, or its waiting for a processor.
func authComputes(e *EndpointReport) (Finding, bool) {
	const local = 5 * time.Millisecond // each
	var all Distribution
	for _, p := range []Phase{Auth, AuthSetup} {
		for o := range numOutcomes {
			all.Merge(e.Distribution(Measure(p), o))
		}
	}
	if e.AuthTurns == 0 || all.Count < enoughOfAPhase {
		return Finding{}, false
	}
	computed := minus(all.Sum, e.AuthWait) / time.Duration(all.Count)
	if computed < local || e.AuthWait > all.Sum-e.AuthWait {
		return Finding{}, false
	}
	return Finding{
		ID: "auth_computes", Severity: "warning", Subject: e.Address, Title: "logins are mostly computing in this process",
		Evidence: fmt.Sprintf("of the %s that each of %d logins took, %s was spent here and %s waiting for the server; up to %d connections were being made at once",
			round(all.Mean()), all.Count, round(computed), round(e.AuthWait/time.Duration(all.Count)), e.MakingMost),
		Advice: "make fewer connections, and fewer at once: a login derives a key from the password here (SCRAM's PBKDF2, as many rounds as the " +
			"account asks for), and all that log in share the processors; the server is not slow",
	}, true
}

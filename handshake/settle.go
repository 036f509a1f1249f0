package handshake

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/connprof/connprof/profiler"
)

// Settle turns the marks into phases. It is called once, when the create ends at the instant end, and lets the connection go.
func (w *watch) Settle(end profiler.Instant, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	w.drain()
	if w.state == preamble && w.first.n > 0 {
		w.spoke()
	}
	if err != nil {
		w.turns.dropFarewell()
	}
	w.conn.tapped.Store(nil)
	w.tcp.settled(w.nc)
	if err != nil {
		failed := w.fail(end, err)
		w.c.Update(func(cr *profiler.Create) {
			cr.Failed = failed
			cr.Cause = w.cause(err)
		})
	} else {
		w.cutPreamble(end)
		w.cutTLS(end)
		w.cutExchanges(end)
	}
	w.report(err)
	w.tls, w.packets, w.postgres, w.turns.all = nil, nil, nil, nil
}

// cause is what the wire saw of a failure, and for a dial that another one follows all that is known of its end.
func (w *watch) cause(err error) error {
	if err != errSuperseded {
		return w.err
	}
	switch {
	case w.said != nil:
		return w.said
	case w.err != nil:
		return w.err
	case w.state == preamble && w.asked && string(w.greeting.buf) == "N": // PostgreSQL's answer to SSLRequest (protocol §55.2.10)
		return errNoTLS
	case w.tls != nil && (!w.secured() || w.refused()):
		if i := w.tls.info(); i.Alert != 0 {
			return tls.AlertError(i.Alert)
		}
		return errHandshake
	}
	return nil
}

func (w *watch) report(err error) {
	w.c.Update(func(cr *profiler.Create) {
		cr.TCP = w.tcp.info
		cr.Wire.BytesIn, cr.Wire.BytesOut = w.in, w.out
		cr.Wire.Turns = int32(len(w.turns.all))
		w.reportWords(&cr.Wire, err != nil)
		if w.tls == nil {
			return
		}
		cr.TLS = w.tls.info()
		cr.TLS.Done = w.secured() && cr.Failed != profiler.TLS
		if i := w.tls.helloWritten(); i.Known() {
			cr.TLS.HelloWritten = w.c.Since(i)
		}
		if i := w.tls.serverHello(); i.Known() {
			cr.TLS.ServerHello = w.c.Since(i)
		}
	})
}

// reportWords reports what the two sides said in the clear.
func (w *watch) reportWords(wire *profiler.Wire, failed bool) {
	first := w.opening.said()
	expected := expectation{system: w.d.Endpoint.System, asked: w.asked && !w.greeting.mysql, hello: w.tls != nil && w.greeted == 0}
	wire.Protocol = expected.protocol(first)
	wire.Mismatch = failed && expected.mismatch(first)
	if w.greeting.version != "" { // else the driver may have told it
		wire.ServerVersion = w.greeting.version
	}
	wire.ServerError = w.greeting.err
	switch {
	case w.packets != nil:
		wire.AuthMethod, wire.AuthPath = w.packets.method(), w.packets.path
		wire.ServerError = w.packets.err
	case w.postgres != nil:
		wire.AuthMethod, wire.SCRAMIterations = w.postgres.method, w.postgres.iterations
		wire.ServerError = w.postgres.failure()
	}
}

func (w *watch) cutPreamble(end profiler.Instant) {
	if w.greeted != 0 {
		w.c.Cut(profiler.Greet, min(w.greeted, end))
	}
}

// secured reports whether a handshake was seen to its good end.
func (w *watch) secured() bool {
	return w.tls != nil && w.tls.done() && !w.tls.gaveUp() && w.tls.ended().Known()
}

// cutTLS reports whether the handshake was seen to its end, or there was none.
func (w *watch) cutTLS(end profiler.Instant) bool {
	if w.tls == nil {
		return true
	}
	if !w.secured() {
		return false
	}
	w.c.Cut(profiler.Other, w.tlsBegan)
	w.c.Cut(profiler.TLS, min(w.tls.ended(), end))
	return true
}

// cutExchanges charges a create that ended well from its first application write on.
func (w *watch) cutExchanges(end profiler.Instant) {
	n := len(w.turns.all)
	if n == 0 {
		return
	}
	w.cutStart()
	if w.cancels() {
		return
	}
	if w.d.Endpoint.System == "mongodb" {
		w.cut(profiler.Hello, 0, 1, end)
		if n > 1 {
			w.cutAuth(profiler.Auth, 1, n, end)
		}
		return
	}
	login := n - w.d.SetupTurns
	switch {
	case w.accepted.told:
		w.cutTold(end)
		return
	case w.accepted.at != 0:
		login = w.accepted.turn
	case w.d.SetupTurns < 0 || login < 1:
		w.cutAuth(profiler.AuthSetup, 0, n, end)
		return
	}
	w.cutAuth(profiler.Auth, 0, login, end)
	if login < n {
		w.cut(profiler.Setup, login, n, end)
		w.c.Update(func(cr *profiler.Create) { cr.Wire.SetupTurns = int32(n - login) })
	}
}

// cutTold charges the exchanges of a driver that told when its login was accepted.
func (w *watch) cutTold(end profiler.Instant) {
	login, n := w.accepted.turn, len(w.turns.all)
	w.countAuth(0, login, end)
	w.c.Cut(profiler.Auth, min(w.accepted.at, end))
	if login < n || w.d.SetupTurns != 0 {
		w.c.Cut(profiler.Setup, end)
		w.c.Update(func(cr *profiler.Create) { cr.Wire.SetupTurns = int32(n - login) })
	}
}

func (w *watch) cutStart() {
	if w.secured() {
		w.c.Cut(profiler.Verify, w.started)
	} else {
		w.c.Cut(profiler.Other, w.started)
	}
}

// cut charges turns i up to j to p.
func (w *watch) cut(p profiler.Phase, i, j int, end profiler.Instant) {
	w.c.Cut(p, min(w.turns.answeredBy(j-1, end), end))
}

func (w *watch) cutAuth(p profiler.Phase, i, j int, end profiler.Instant) {
	w.cut(p, i, j, end)
	w.countAuth(i, j, end)
}

func (w *watch) countAuth(i, j int, end profiler.Instant) {
	wait := w.turns.waiting(i, j, end)
	w.c.Update(func(cr *profiler.Create) {
		cr.Wire.AuthTurns = int32(j - i)
		cr.Wire.AuthWait = wait
	})
}

// tlsDue reports whether the ClientHello is what comes next: both sides have agreed on TLS, in MySQL by the client's word alone.
func (w *watch) tlsDue() bool {
	return w.asked && (w.greeting.mysql || string(w.greeting.buf) == "S")
}

// finishedIsWrong reports whether the client did not take the handshake's last message, a server's Finished of TLS 1.2, which from below
// looks like any other. crypto/tls calls what it refuses itself a "local error" (conn.go, sendAlertLocked).
func (w *watch) finishedIsWrong(err error) bool {
	var op *net.OpError
	return w.state == handshaking && w.secured() && w.tls.info().Version < tls.VersionTLS13 && errors.As(err, &op) && op.Op == "local error"
}

// fail charges a create that failed, and names the phase in which it did.
func (w *watch) fail(end profiler.Instant, err error) profiler.Phase {
	w.cutPreamble(end)
	if w.state == preamble && w.tlsDue() {
		w.c.Cut(profiler.Other, w.lastIO)
		w.c.Cut(profiler.TLS, end)
		return profiler.TLS
	}
	if w.state == preamble {
		// MySQL's server speaks first; PostgreSQL's answers a request for TLS. Otherwise the client never got to its first word.
		if w.greeted == 0 && (w.asked || w.d.Endpoint.System == "mysql") {
			w.c.Cut(profiler.Greet, end)
		}
		if w.greeted != 0 || w.asked || w.d.Endpoint.System == "mysql" {
			return profiler.Greet
		}
		return profiler.Other
	}
	if w.finishedIsWrong(err) || !w.cutTLS(end) {
		w.c.Cut(profiler.Other, w.tlsBegan)
		w.c.Cut(profiler.TLS, end)
		return profiler.TLS
	}
	if w.state == handshaking { // over, and nothing was written after it
		w.c.Cut(profiler.Verify, end)
		if w.refused() {
			return profiler.TLS
		}
		return profiler.Verify
	}
	w.cutStart()
	n := len(w.turns.all)
	failed := profiler.Auth
	switch setup := w.d.SetupTurns; {
	case w.d.Endpoint.System == "mongodb":
		failed = profiler.Hello
		w.cut(profiler.Hello, 0, 1, end)
		if n > 1 {
			failed = profiler.Auth
			w.cutAuth(profiler.Auth, 1, n, end)
		}
	case w.accepted.told:
		failed = profiler.Setup
		w.cutTold(end)
	case w.accepted.at != 0:
		failed = profiler.Setup
		w.cutAuth(profiler.Auth, 0, w.accepted.turn, end)
		w.c.Cut(profiler.Setup, end)
	case setup != 0 && n > 1 && w.packets == nil && (w.err != nil || !w.turns.answered()):
		// No server spoke: whether a login of several turns broke off or a statement after it, the wire hides.
		failed = profiler.AuthSetup
		w.cutAuth(profiler.AuthSetup, 0, n, end)
	case setup == 0 || n == 1 || w.packets != nil || w.d.LoginError == nil || w.d.LoginError(err):
		w.cutAuth(profiler.Auth, 0, n, end)
	case setup == 1: // the last exchange was the driver's one statement
		failed = profiler.Setup
		w.cutAuth(profiler.Auth, 0, n-1, end)
		w.cut(profiler.Setup, n-1, n, end)
	default: // one of several statements: how many went well before it the wire hides
		failed = profiler.Setup
		w.cutAuth(profiler.AuthSetup, 0, n-1, end)
		w.cut(profiler.Setup, n-1, n, end)
	}
	// A failure that came while no exchange was open (a cancel between two) still belongs to the phase it came in.
	w.c.Cut(failed, end)
	if w.refused() {
		return profiler.TLS
	}
	return failed
}

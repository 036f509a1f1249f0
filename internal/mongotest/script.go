package mongotest

import (
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Accept is the Command of the Call for a connection that was accepted, before its TLS handshake and before anything is read.
const Accept = "accept"

// Call is what the server is about to answer.
type Call struct {
	// Command is the name of the command: as the client sent it, but "hello" for the legacy isMaster, too. Or it is Accept.
	Command string

	Conn        int64    // the connectionId of the connection
	N           int      // how many of this command the server has seen, this one included
	NConn       int      // the same on this connection
	Awaited     bool     // an awaitable hello: it carries topologyVersion and maxAwaitTimeMS
	Speculative bool     // a hello with speculativeAuthenticate, which only connections of a pool send
	Body        bson.Raw // the command; nil for Accept. It must not be changed.
}

// Step is what happens before or instead of the reply. The zero Step is the honest reply at once.
type Step struct {
	Delay time.Duration // waited first; for Accept it delays the TLS handshake. Kill, Stop and (but for Accept) the client end it early.
	Close bool          // close the socket instead of replying, without a TLS close_notify
	Hang  bool          // never reply to this or anything later; the connection stays open until the client, Kill or Stop closes it
	Error *Error        // refuse the command with this error; not for Accept
	Reply bson.D        // answer this instead, with "ok" in it; not for Accept
}

// Script decides what happens before each reply. It is called from the goroutines of all connections at once and should not block:
// Step.Delay waits. It is called once for an awaitable hello, not for each reply that streams from it.
type Script func(Call) Step

// On is a Script that does step for every call of command and nothing otherwise. For "hello" that includes the monitors' hellos.
func On(command string, step Step) Script { return OnNth(command, 0, step) }

// OnNth is a Script that does step for the n-th call of command that the server sees, from 1, or for every call if n is 0, and nothing
// otherwise.
func OnNth(command string, n int, step Step) Script {
	return func(c Call) Step {
		if strings.EqualFold(c.Command, command) && (n == 0 || c.N == n) {
			return step
		}
		return Step{}
	}
}

// SetScript replaces the script, for calls that come from now on; nil removes it. Call.N goes on counting.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Error is a reply with ok: 0.
type Error struct {
	Code    int32
	Name    string // the codeName
	Message string
	Labels  []string // the errorLabels, such as RetryableWriteError
}

// The errors that the server itself gives, with MongoDB's codes (mongo/base/error_codes.yml).
const (
	CodeBadValue                = 2
	CodeUnauthorized            = 13
	CodeAuthenticationFailed    = 18
	CodeCursorNotFound          = 43
	CodeCommandNotFound         = 59
	CodeNotImplemented          = 238
	CodeMechanismUnavailable    = 334
	CodeNotWritablePrimary      = 10107
	CodeDuplicateKey            = 11000
	CodeNotPrimaryNoSecondaryOk = 13435
)

// Error makes an Error usable as a Go error inside the server.
func (e *Error) Error() string { return e.Name + ": " + e.Message }

func (e *Error) reply() bson.D {
	d := bson.D{{Key: "ok", Value: 0.0}, {Key: "errmsg", Value: e.Message}, {Key: "code", Value: e.Code}, {Key: "codeName", Value: e.Name}}
	if len(e.Labels) > 0 {
		d = append(d, bson.E{Key: "errorLabels", Value: e.Labels})
	}
	return d
}

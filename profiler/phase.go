package profiler

// Phase is one part of a create, the making of a connection. The phases of one create follow each other, never overlap, and sum to
// the create exactly: what belongs to no named phase is Other. Every begin is the entry of a call (Dial, Write, Connect) and every
// end its return.
type Phase uint8

// The phases in the order in which they happen. A phase that never began is absent, not zero.
const (
	// NoPhase is the zero Phase: none.
	NoPhase Phase = iota
	// Hook is the user's own code before the dial (BeforeConnect, a token fetch), where it can be seen.
	Hook
	// Resolve is name look-up to answer. Absent for IP addresses and unix sockets.
	Resolve
	// Attempts is what was lost before the winning dial's connect began: lost dials whole, the fallback delay of RFC 8305, logins
	// that were made and then rejected. Each is described by an Attempt.
	Attempts
	// Connect is the connect of the winning address (TCP or unix); with an opaque dialer all that the dialer did.
	Connect
	// Greet is connected to first server word: MySQL's greeting, PostgreSQL's answer to SSLRequest. Absent for MongoDB.
	Greet
	// TLS is the end of the I/O before the ClientHello to client Finished written (TLS 1.3) or last Finished seen (TLS 1.2).
	// Building the ClientHello is part of it; TLSInfo.HelloWritten marks its first byte.
	TLS
	// Verify is the end of TLS to the entry of the next application write. Revocation look-ups (OCSP) hide here.
	Verify
	// Hello is MongoDB's first hello, entry of its write to its reply read. It carries the first SCRAM message when speculative.
	Hello
	// Auth is the entry of the first login write to accepted. For MongoDB, whose hello may carry the first login message, it begins
	// where Hello ended if any exchange follows, so that SCRAM's key derivation lies inside it.
	Auth
	// Setup is the driver's own statements before hand-over (SET, max_allowed_packet, AfterConnect): never a query.
	Setup
	// AuthSetup is Auth and Setup together, where the wire hides the cut between them, and only there.
	AuthSetup
	// Other is the rest of the create: small, or a bug to look at.
	Other
	// NumPhases bounds arrays indexed by Phase.
	NumPhases
)

var phaseNames = [NumPhases]string{
	"none", "hook", "resolve", "attempts", "connect", "greet", "tls", "verify", "hello", "auth", "setup", "auth+setup", "other",
}

// String is the phase's name, as reports, spans and metrics carry it.
func (p Phase) String() string {
	if p < NumPhases {
		return phaseNames[p]
	}
	return "invalid"
}

// Phases calls yield with each phase in order, NoPhase excepted. It has the shape of an iterator: for p := range profiler.Phases.
func Phases(yield func(Phase) bool) {
	for p := NoPhase + 1; p < NumPhases; p++ {
		if !yield(p) {
			return
		}
	}
}

// Role says what a dialed connection is for. Only RolePool counts as a connection of the pool.
type Role uint8

const (
	// RoleUnattributed is a connection that could not be tied to anything. It is never guessed.
	RoleUnattributed Role = iota
	// RolePool is a connection that serves callers.
	RolePool
	// RoleMonitor is a MongoDB driver's heartbeat or round-trip-time connection.
	RoleMonitor
	// RoleCancel carries a PostgreSQL cancel request.
	RoleCancel
	// RoleOther is a dial that no pool asked for.
	RoleOther
	numRoles
)

var roleNames = [numRoles]string{"unattributed", "pool", "monitor", "cancel", "other"}

// String is the role's name.
func (r Role) String() string {
	if r < numRoles {
		return roleNames[r]
	}
	return "invalid"
}

// Outcome is how a create, a wait or an operation ended.
type Outcome uint8

const (
	// OK means without an error.
	OK Outcome = iota
	// Failed means with an error that is neither of the two below.
	Failed
	// Canceled means that the caller's context was canceled.
	Canceled
	// Timeout means that a deadline passed: the context's or the connection's.
	Timeout
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"ok", "error", "canceled", "timeout"}

// String is the outcome's name.
func (o Outcome) String() string {
	if o < numOutcomes {
		return outcomeNames[o]
	}
	return "invalid"
}

// CloseReason says why a connection was closed.
type CloseReason uint8

const (
	// CloseUnknown means that nothing told why. It is never guessed.
	CloseUnknown CloseReason = iota
	// CloseIdleLimit means that the pool already had as many idle connections as it keeps.
	CloseIdleLimit
	// CloseIdleTime means that the connection had been idle for too long.
	CloseIdleTime
	// CloseLifetime means that the connection had reached its maximum age.
	CloseLifetime
	// CloseError means that the connection failed.
	CloseError
	// CloseCanceled means that an operation on it was canceled or timed out.
	CloseCanceled
	// CloseStale means that it was found dead, or was of a generation that the pool had cleared.
	CloseStale
	// ClosePoolClosed means that the pool was closed.
	ClosePoolClosed
	numCloseReasons
)

var closeReasonNames = [numCloseReasons]string{
	"unknown", "idle_limit", "idle_time", "lifetime", "error", "canceled", "stale", "pool_closed",
}

// String is the reason's name.
func (r CloseReason) String() string {
	if r < numCloseReasons {
		return closeReasonNames[r]
	}
	return "invalid"
}

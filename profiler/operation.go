package profiler

import "time"

// OpKind says what an operation is.
type OpKind uint8

const (
	// OpQuery, OpExec and the rest are database/sql's; a query without arguments on the wire and one that was prepared first are both
	// OpQuery. Ping, ResetSession and liveness checks are not operations.
	OpQuery OpKind = iota + 1
	OpExec
	OpPrepare
	OpBegin
	OpCommit
	OpRollback
	OpBatch
	OpCopy
	// OpCommand is a MongoDB command other than hello, sasl*, endSessions and ping.
	OpCommand
)

var opNames = [...]string{"invalid", "query", "exec", "prepare", "begin", "commit", "rollback", "batch", "copy", "command"}

// String is the kind's name.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return "invalid"
}

// Operation is what one call on a connection did, as an Event carries it.
type Operation struct {
	Kind OpKind
	// Name is MongoDB's command name; Text is SQL's query text as the caller gave it, without the arguments. Text may hold literals:
	// exporters must not show it unless asked to.
	Name, Text string
	// Namespace is the database, where the operation names one.
	Namespace string
	// N is the operation's index on its connection, from 1: 1 is the first query, all others are reused ones.
	N uint64
	// Asked is when the caller asked the pool; zero if unknown.
	Asked time.Time
	// Start, FirstResponse and End are entry of the call, first answer and rows closed.
	Start, FirstResponse, End time.Time
	// Wait is the caller's wait, Queued its part that was not spent on the create it waited for. Valid if WaitKnown: unknown is not 0.
	Wait, Queued time.Duration
	WaitKnown    bool
	// Idle is how long the connection was unused before this operation; 0 within one use, and for a new connection.
	Idle time.Duration
	// Turns counts the awaited round trips, 0 if unknown.
	Turns int
	// Err is the driver's own error, Outcome what kind it is.
	Err     error
	Outcome Outcome
}

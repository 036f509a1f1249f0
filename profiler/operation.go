package profiler

import "time"

// OpKind says what an operation is.
type OpKind uint8

const (
	// OpQuery, OpExec and the rest are database/sql's, but for OpBatch and OpCopy (SendBatch, CopyFrom), which are pgx's; a query without
	// arguments on the wire and one that was prepared first are both OpQuery. Ping, ResetSession and liveness checks are not operations.
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
	// Collection is MongoDB's, where something names it: a reply with a cursor, or the command's start. Cursor is the cursor that the reply
	// left open, 0 for none: a later getMore of that cursor is a part of the same result.
	Collection string
	Cursor     int64
	// N is the operation's index on its connection, from 1: 1 is the first query, all others are reused ones.
	N uint64
	// Asked is when the caller asked the pool; zero if unknown.
	Asked time.Time
	// Start, FirstResponse and End are entry of the call, first answer and rows closed.
	Start, FirstResponse, End time.Time
	// Wait is the caller's wait, Queued its part that was not spent on the create it waited for. Valid if WaitKnown: unknown is not 0.
	Wait, Queued time.Duration
	WaitKnown    bool
	// WaitFor is what the wait was for; WaitUnknown where the wait is not known.
	WaitFor WaitFor
	// Attempts counts the connections on which it was tried: 1 if the first one served, more if the pool repeated it because it had met
	// dead ones, StaleIdle then being the longest time that one of them had been idle. 0 means unknown: nothing tells which operation a
	// dead connection was meant for unless the caller's context carries Asked's mark (pool.DB's calls do), or nothing tells whether a MongoDB
	// driver repeated a command.
	Attempts  int
	StaleIdle time.Duration
	// Lost is what the earlier attempts of an operation that the driver repeated took, the search for another connection included: from the
	// first attempt's start to Start. 0 if it was not repeated.
	Lost time.Duration
	// Selection is what choosing a server took before the pool was asked (MongoDB's server selection, the wait for a first heartbeat
	// included), valid if SelectionKnown: it takes Asked's mark in the operation's context.
	Selection      time.Duration
	SelectionKnown bool
	// Idle is how long the connection was unused before this operation; 0 within one use, and for a new connection.
	Idle time.Duration
	// Turns counts the awaited round trips up to the first response, 0 if unknown.
	Turns int
	// Sent and Received are the bytes that went over the network for it from its start to its end (in a KindFirstResponse until then), under
	// TLS as they were encrypted. Valid if BytesKnown: they are counted where a handshake.Dialer made the connection, and for operations
	// that a Sink wants to be told of.
	Sent, Received int64
	BytesKnown     bool
	// Check is what the pool's own check took that the connection is alive, between Wait and the operation, and part of neither.
	Check time.Duration
	// Preparing is the part of the time up to the first response that went into preparing a statement for it, where that is known.
	Preparing time.Duration
	// Prepared says whether a statement was prepared for it, or before.
	Prepared Prepared
	// Driver and Consumer are the two parts of the time from first response to rows closed, where a row was asked for: inside the driver's
	// calls for rows (the network, and decoding), and between them, in the caller's own code. They are 0 for an operation without rows.
	// See Rows for their precision.
	Driver, Consumer time.Duration
	// Err is the driver's own error, Outcome what kind it is.
	Err     error
	Outcome Outcome
}

// WaitFor says what a caller waited for.
type WaitFor uint8

const (
	// WaitUnknown means that the wait is not known.
	WaitUnknown WaitFor = iota
	// WaitFree is for a connection that existed already, if only for the moment it takes to get an idle one.
	WaitFree
	// WaitCreate is for a connection made by the caller's own call.
	WaitCreate
	// WaitBackground is for a connection that the pool made in the background, for whoever came first.
	WaitBackground
)

var waitNames = [...]string{"unknown", "free", "create", "background_create"}

// String is "unknown", "free", "create" or "background_create".
func (w WaitFor) String() string {
	if int(w) < len(waitNames) {
		return waitNames[w]
	}
	return "invalid"
}

// Prepared says how an operation used a prepared statement.
type Prepared uint8

const (
	// NotPrepared means that it ran as text, or that nothing tells.
	NotPrepared Prepared = iota
	// PreparedOnce means that the driver declined to run it at once, and that a statement was prepared for this call, executed and closed.
	PreparedOnce
	// PreparedBefore means that it ran on a statement that the caller had prepared.
	PreparedBefore
	// PreparedKept means that a statement was prepared for it that the driver keeps, for later calls with the same text: the first use of
	// pgx's statement cache on a connection.
	PreparedKept
)

var preparedNames = [...]string{"no", "once", "before", "kept"}

// String is "no", "once", "before" or "kept".
func (p Prepared) String() string {
	if int(p) < len(preparedNames) {
		return preparedNames[p]
	}
	return "invalid"
}

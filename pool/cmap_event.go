package pool

import (
	"context"
	"net"
	"time"
)

// DialFunc dials, like net.Dialer.DialContext.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// PoolEvent is an event of the CMAP specification ("Connection Pool Monitoring"), as both MongoDB drivers report it.
type PoolEvent struct {
	// Type is the specification's name: "ConnectionCreated", "ConnectionReady", ... Unknown types are ignored.
	Type string
	// Address is host:port or the path of a unix socket, ConnectionID the connection's number in its pool. Numbers start at 1 again in
	// each pool, so that a client may have two connections of one address and number.
	Address      string
	ConnectionID uint64
	// Duration is set for ConnectionCheckedOut and ConnectionCheckOutFailed: the time from asking the pool to its answer.
	Duration time.Duration
	// MaxPoolSize is set for ConnectionPoolCreated; 0 means no limit.
	MaxPoolSize uint64
	// Reason and Err are set for ConnectionClosed and ConnectionCheckOutFailed, Err for ConnectionPoolCleared: why.
	Reason string
	Err    error
}

// The types of PoolEvent that mean something to a CMAP.
const (
	poolCreated          = "ConnectionPoolCreated"
	checkOutStarted      = "ConnectionCheckOutStarted"
	checkOutFailed       = "ConnectionCheckOutFailed"
	poolReady            = "ConnectionPoolReady"
	poolCleared          = "ConnectionPoolCleared"
	poolClosed           = "ConnectionPoolClosed"
	connectionCreated    = "ConnectionCreated"
	connectionReady      = "ConnectionReady"
	connectionClosed     = "ConnectionClosed"
	connectionCheckedOut = "ConnectionCheckedOut"
	connectionCheckedIn  = "ConnectionCheckedIn"
)

// CommandEvent says that a command succeeded or failed, as the command monitoring specification has it. (A CMAP has no use for the
// command's start, and the drivers copy the whole command for whoever asks for it.)
type CommandEvent struct {
	// ConnectionID is the driver's name for the connection, such as "localhost:27017[-5]": another one than PoolEvent.ConnectionID.
	ConnectionID string
	// RequestID is that of the command's start, if Started was told of it.
	RequestID int64
	// Name is the command's, Database the one it ran in.
	Name     string
	Database string
	// Duration is the time from before the command was written to its reply.
	Duration time.Duration
	// Reply is looked at during the call and not kept. It may be nil.
	Reply []byte
	// Err is the driver's error of a command that failed. RetryableRead and RetryableWrite say that the driver takes it for one after
	// which it repeats a read or a write, Overloaded that it says so of any command.
	Err                                       error
	RetryableRead, RetryableWrite, Overloaded bool
	// Session says that the command ran in a session of the caller's, which may be in a transaction. It is looked at where Err is set.
	Session bool
}

// StartedEvent says that a command is about to be sent. Its fields are as CommandEvent's; Command is looked at during the call and not kept.
type StartedEvent struct {
	ConnectionID string
	RequestID    int64
	Name         string
	Command      []byte
}

// HeartbeatEvent is a server heartbeat event of the SDAM monitoring specification.
type HeartbeatEvent struct {
	// Type is "ServerHeartbeatStarted", "ServerHeartbeatSucceeded" or "ServerHeartbeatFailed".
	Type string
	// Awaited says that the server was asked to hold its answer until something changes. That is never so on a new connection.
	Awaited bool
	// ConnectionID is the driver's name for the monitor's connection, as CommandEvent's. It tells which server's an awaited heartbeat was.
	ConnectionID string
	// Err is set for a failed heartbeat.
	Err error
}

// The types of HeartbeatEvent.
const (
	HeartbeatStarted   = "ServerHeartbeatStarted"
	HeartbeatSucceeded = "ServerHeartbeatSucceeded"
	HeartbeatFailed    = "ServerHeartbeatFailed"
)

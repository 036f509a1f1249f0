package profiler

import (
	"time"
)

// Span is what one phase of a create took. The zero Span is absent: the phase never began.
type Span struct {
	// Begin is the offset of the phase's first moment from Create.Start.
	Begin time.Duration
	// Duration is the time charged to the phase. A phase in several pieces (two look-ups of one create) counts their sum.
	Duration time.Duration
	// Present tells a phase that took no measurable time from one that never began.
	Present bool
}

// Create describes the making of one connection, from the driver's start to its hand-over or failure.
type Create struct {
	// Start is when the driver began, on the wall clock and with a monotonic reading.
	Start time.Time
	// Duration is all of it, and the exact sum of Phases.
	Duration time.Duration
	// Phases holds each phase's part, indexed by Phase.
	Phases [NumPhases]Span
	// Attempts are the connects in the order in which they began, the winner included. At most MaxAttempts are kept.
	Attempts []Attempt
	// AttemptsDropped counts the attempts beyond MaxAttempts.
	AttemptsDropped int
	// Resolved says what the look-up asked and got.
	Resolved Resolved
	// TLS holds what the records showed; its zero value means that no ClientHello was written.
	TLS TLSInfo
	// TCP holds the kernel's own numbers, where there are any.
	TCP TCPInfo
	// Wire holds what else the bytes showed.
	Wire Wire
	// Err is the driver's own error of a failed create.
	Err error
	// Cause is the error that the wire saw first, where it says more than Err (drivers may replace an EOF by "invalid connection").
	Cause error
	// Failed is the phase in which the create failed, NoPhase if it did not.
	Failed Phase
	// Outcome is how the create ended.
	Outcome Outcome
	// Class says why it failed, in one of few words; ClassNone if it did not.
	Class ErrorClass
	// Caller says that the create ran under the context of the caller that needed it. Otherwise the pool made it in the background.
	Caller bool
	// TotalUnknown says that nothing told when the driver began or took over the connection, as for a dial that no pool asked for.
	// The phases are right, Duration covers only what was seen, and the create counts in no total.
	TotalUnknown bool
	// Replaces is why the pool had lost a connection for which it made this one, as far as it tells; CloseUnknown otherwise.
	Replaces CloseReason
}

// MaxAttempts bounds Create.Attempts.
const MaxAttempts = 32

// Attempt is one connect to one address.
type Attempt struct {
	// Network is "tcp", "unix", ...; Address is host:port, or the path of a socket.
	Network string
	Address string
	// Begin is the offset from Create.Start.
	Begin time.Duration
	// Duration runs from the connect's start to its end; to the end of a login for one that was rejected after it.
	Duration time.Duration
	// Reached is the phase in which a lost attempt ended; NoPhase for the winner.
	Reached Phase
	// Err is why it was lost; nil for the winner. For one that was dialed successfully it is what the wire or the driver told of the end,
	// if either did.
	Err error
}

// Resolved says what a name look-up asked and got.
type Resolved struct {
	Host    string // the name of the last look-up, "" where there was none, or it was not seen
	Answers int    // the addresses that all of them gave together
	Lookups int    // how many look-ups one create made
}

// TCPInfo holds the kernel's view of a connection (Linux TCP_INFO). Its zero value means not available.
type TCPInfo struct {
	// Known says that the kernel was asked and answered.
	Known bool
	// RTT and RTTVar are smoothed round-trip time and its variance right after connect: the SYN's own round trip.
	RTT, RTTVar time.Duration
	// Retransmits counts retransmitted segments up to hand-over; those at connect are retransmitted SYNs.
	RetransmitsConnect, Retransmits uint32
}

// Transport says what carries the protocol.
type Transport uint8

const (
	// TransportUnknown means that nothing was dialed, or that it could not be seen.
	TransportUnknown Transport = iota
	// TransportTCP is TCP.
	TransportTCP
	// TransportUnix is a unix socket.
	TransportUnix
	// TransportOpaque is a user's own dialer that shows nothing of what it does: Connect is all of it.
	TransportOpaque
)

// RoundTrips is how long p took, in round trips of the network: its duration over TCP.RTT. It is an upper bound of the exchanges on the
// critical path of p, since what both sides computed is in it. ok is false where the phase is absent or the round trip unknown.
func (c *Create) RoundTrips(p Phase) (n float64, ok bool) {
	if c == nil || p >= NumPhases || !c.Phases[p].Present || !c.TCP.Known || c.TCP.RTT <= 0 {
		return 0, false
	}
	return float64(c.Phases[p].Duration) / float64(c.TCP.RTT), true
}

// charge adds d, beginning at begin, to p.
func (c *Create) charge(p Phase, begin, d time.Duration) {
	s := &c.Phases[p]
	if !s.Present || begin < s.Begin {
		s.Begin, s.Present = begin, true
	}
	s.Duration += d
}

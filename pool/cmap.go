package pool

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// CMAP follows the connections of one MongoDB client: its pools', its monitors', and those that can't be told. It is what the adapters
// of both driver versions share. They install DialContext as the client's dialer, so that no other stands around it, and hand it what
// the client's pool, command and server monitors report. Its fields must not change once it is in use. Its methods may be called
// concurrently; they never block on the network and never call the client, so that they may run under its locks.
//
// How a dial is tied to what it is for. No event carries a context or the network connection, and dials to one address overlap, so that
// neither order nor time tells. But a driver makes a connection on one goroutine: ConnectionCreated, the dial, and ConnectionReady or
// ConnectionClosed for a pool's, ServerHeartbeatStarted, the dial, and ServerHeartbeatSucceeded or Failed for a monitor's. The number
// of the goroutine therefore tells exactly. The round-trip-time monitor reports nothing; its dial is known by the driver's function on
// the stack. Any other dial is profiler.RoleUnattributed.
//
// How a command is tied to its connection. Commands and pool events name connections differently. ConnectionCheckedOut and the end of
// the command run on the caller's goroutine: its number joins the two names at a connection's first command. From then on the name is
// enough, and no command pays for more than a look-up. Where several connections have the pool events' name (clients made from one set of
// options), the wire tells which of them that goroutine wrote to.
//
// A Profiler that is off, when a connection is created, keeps it unwatched for good.
type CMAP struct {
	Profiler *profiler.Profiler
	// Endpoint is what connections are counted by; the Address is filled in for each.
	Endpoint profiler.Endpoint
	// Dial makes the watched connections. It finds the profiler.Conn in its context, and ends the create of one that is neither of
	// RolePool nor of the kind "heartbeat": no event tells when those are ready. nil means Unwatched.
	Dial DialFunc
	// Unwatched makes the connections that are not recorded; nil means a zero net.Dialer.
	Unwatched DialFunc

	// MaxConnecting is how many connections a pool makes at a time; 0 means 2, the drivers' default.
	MaxConnecting int
	// Pinning says that the client runs in load-balanced mode, where a cursor or a transaction keeps its connection.
	Pinning bool
	// RetryReads and RetryWrites say that the driver repeats what failed for a while: once, or with RetryUnlimited for as long as it
	// takes, which RetryWithinDeadline restricts to contexts that have a deadline. SelectionTimeout is how long it then looks for a server.
	RetryReads, RetryWrites, RetryUnlimited, RetryWithinDeadline bool

	SelectionTimeout time.Duration

	// slots and named are read for every command, without a lock; writes hold mu.
	slots sync.Map // slot → *member, the newest of that slot
	named sync.Map // the driver's name of the connection → *member

	mu      sync.Mutex
	size    int                 // mu: members in slots
	opening map[uint64]*opening // mu: by goroutine, what it is making
	joining map[uint64]*member  // mu: by goroutine, what it has checked out and whose name is to be learned
	doubts  map[uint64]doubt    // mu: by goroutine, where the one is that it has checked out

	sites map[string]*site // mu: by address
	held  []*heldOp        // mu: attempts that failed and that the driver repeats

	recent recent // what the hot path finds without a map

	pending    sync.Map // address → *pending
	onePending atomic.Pointer[pending]
	pendings   atomic.Int32

	waiting   atomic.Int32 // len(joining) and len(doubts)
	holding   atomic.Int32 // len(held)
	awaited   atomic.Int64
	draining  atomic.Int64
	abandoned atomic.Int64
	apart     atomic.Int64 // getMores that awaited data
	dropped   atomic.Int64
	unjoined  atomic.Int64
}

// Bounds of what one client keeps. A client has one monitor a server and at most maxConnecting (2) creates a pool under way.
const (
	maxMembers = 1 << 17
	maxOpening = 1 << 12
)

// CMAPStats says what a CMAP keeps and what it could not tie.
type CMAPStats struct {
	// Conns counts the connections of the pools that are known now.
	Conns int
	// Dropped counts connections beyond what a CMAP keeps: 131,072 of pools, 4,096 in the making. Their commands are not seen.
	Dropped int64
	// Unjoined counts the commands that no connection could be named for. They are missing in the report.
	Unjoined int64
	// Pending counts what goroutines have begun and not ended.
	Pending int
	// Held counts attempts that failed and that the driver is about to repeat, or perhaps.
	Held int
	// AwaitedHeartbeats and AwaitedGetMores count the heartbeats for which the server was asked to hold its answer, and the getMores that
	// waited for new data: none of them is a latency.
	AwaitedHeartbeats, AwaitedGetMores int64
	// Draining counts the connections that came back to their pool after the client had given up on a reply that is still to come.
	Draining int64
	// Abandoned counts the commands that began and whose end was never told (only with Started).
	Abandoned int64
}

// Stats takes a snapshot.
func (m *CMAP) Stats() CMAPStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return CMAPStats{
		Conns: m.size, Pending: len(m.opening) + len(m.joining), Dropped: m.dropped.Load(), Unjoined: m.unjoined.Load(),
		Held: len(m.held), AwaitedHeartbeats: m.awaited.Load(), AwaitedGetMores: m.apart.Load(), Draining: m.draining.Load(),
		Abandoned: m.abandoned.Load(),
	}
}

// opening is what a goroutine is making.
type opening struct {
	of   *member        // a pool's connection; nil for a heartbeat
	conn *profiler.Conn // the heartbeat's, from its dial on
}

// DialContext dials through Dial, with the profiler.Conn that the connection is for in the context.
func (m *CMAP) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c := m.dialing(address)
	if c == nil || m.Dial == nil {
		if m.Unwatched == nil {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return m.Unwatched(ctx, network, address)
	}
	return m.Dial(profiler.NewContext(ctx, c), network, address)
}

// dialing is the Conn of this goroutine's dial; nil if it is not to be recorded.
func (m *CMAP) dialing(address string) *profiler.Conn {
	if !m.Profiler.Enabled() {
		return nil
	}
	g := goid.Get()
	m.mu.Lock()
	o := m.opening[g]
	if o != nil && o.of != nil {
		defer m.mu.Unlock()
		if o.of.closed.Load() { // the pool interrupted it, and that was reported
			return nil
		}
		return o.of.conn
	}
	m.mu.Unlock()

	role, kind := profiler.RoleMonitor, "heartbeat"
	switch {
	case o == nil && onRTTMonitor():
		kind = "rtt"
	case o == nil:
		role, kind = profiler.RoleUnattributed, ""
	case o.conn != nil:
		return o.conn
	}
	c := m.Profiler.NewConn(m.endpoint(address), role)
	c.SetKind(kind)
	if o != nil {
		m.mu.Lock()
		o.conn = c
		m.mu.Unlock()
	}
	return c
}

func (m *CMAP) endpoint(address string) profiler.Endpoint {
	e := m.Endpoint
	e.Address = address
	return e
}

// rttMonitor is on the stack of the dial of a round-trip-time monitor: start in x/mongo/driver/topology/rtt_monitor.go, the same in
// mongo-driver v1.17.10 and v2.10.0.
const rttMonitor = "x/mongo/driver/topology.(*rttMonitor)"

func onRTTMonitor() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, rttMonitor) {
			return true
		}
		if !more {
			return false
		}
	}
}

package profiler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one physical connection: how it was made and what has run on it. Instrumentation makes it with Profiler.NewConn and tells
// it what happens; sinks read it.
//
// Its life: NewConn (the create begins) → Cut, Update, Lost while it is being made → Ready or Fail → Begin for each operation,
// CheckedOut and CheckedIn around use → Closed. All methods of a nil Conn do nothing. The methods for making may be called from any
// goroutine; after Ready or Fail they do nothing. Begin, CheckedOut and CheckedIn need what every pool gives: one user at a time.
type Conn struct {
	p        *Profiler
	s        *series
	id       uint64
	endpoint Endpoint
	role     Role
	use      use // what the pool's one user at a time keeps here

	anchor  anchor
	readyAt atomic.Int64 // Instant of hand-over, 0 before and for a failed create

	mu       sync.Mutex
	kind     string  // mu
	create   *Create // mu until finished, then read-only
	cursor   Instant // mu: up to here the create's time is charged
	started  Instant // mu
	watcher  Watcher // mu
	finished bool    // mu
	closed   bool    // mu
	attached []any   // mu: key, value, key, value …
}

// A Watcher saw the create on the wire. Settle is called once, before the create is finished, with the instant that ends it: the
// watcher then makes the cuts that only the end could tell (which exchange was the last of the login), with Cut and Update.
type Watcher interface {
	Settle(end Instant, err error)
}

// NewConn begins a create, now. It returns nil, on which everything does nothing, for a nil or disabled Profiler.
func (p *Profiler) NewConn(e Endpoint, r Role) *Conn {
	if p == nil || p.off.Load() {
		return nil
	}
	if r >= numRoles {
		r = RoleUnattributed
	}
	now := Now()
	id := p.ids.Add(1)
	c := &Conn{
		p: p, id: id, endpoint: e, role: r, started: now, cursor: now,
		anchor: newAnchor(now),
		s:      p.targets.get(e, p.maxEndpoints()).get(r, id),
	}
	c.create = &Create{Start: c.anchor.time(now)}
	p.live.add(c, p.maxConns())
	return c
}

// Profiler is the one that c belongs to, nil for a nil Conn.
func (c *Conn) Profiler() *Profiler {
	if c == nil {
		return nil
	}
	return c.p
}

// ID numbers the connections of one Profiler from 1; 0 for a nil Conn.
func (c *Conn) ID() uint64 {
	if c == nil {
		return 0
	}
	return c.id
}

// Endpoint is what the connection is counted by.
func (c *Conn) Endpoint() Endpoint {
	if c == nil {
		return Endpoint{}
	}
	return c.endpoint
}

// Role says what the connection is for.
func (c *Conn) Role() Role {
	if c == nil {
		return RoleUnattributed
	}
	return c.role
}

// Kind tells the connections of one role apart: "heartbeat" or "rtt" for RoleMonitor, else "".
func (c *Conn) Kind() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kind
}

// SetKind sets what Kind returns.
func (c *Conn) SetKind(kind string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind = kind
}

// Create tells how the connection was made; nil until that ended. It is read-only.
func (c *Conn) Create() *Create {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finished {
		return nil
	}
	return c.create
}

// Time places an Instant on the wall clock, through the connection's one anchor; the zero Instant gives the zero time.
func (c *Conn) Time(i Instant) time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.anchor.time(i)
}

// Since is the offset of i from the create's start.
func (c *Conn) Since(i Instant) time.Duration {
	if c == nil {
		return 0
	}
	return i.Sub(c.started)
}

// ReadyAt is the instant of hand-over, zero before it.
func (c *Conn) ReadyAt() Instant {
	if c == nil {
		return 0
	}
	return Instant(c.readyAt.Load())
}

// Attach keeps v beside the connection under key, for a Sink; a nil v removes it. Use a key of an unexported type.
func (c *Conn) Attach(key, v any) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.attached); i += 2 {
		if c.attached[i] == key {
			if v == nil {
				c.attached = append(c.attached[:i], c.attached[i+2:]...)
			} else {
				c.attached[i+1] = v
			}
			return
		}
	}
	if v != nil {
		c.attached = append(c.attached, key, v)
	}
}

// Attached returns what was attached under key, nil if nothing was.
func (c *Conn) Attached(key any) any {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.attached); i += 2 {
		if c.attached[i] == key {
			return c.attached[i+1]
		}
	}
	return nil
}

// Close describes a connection's end.
type Close struct {
	At     time.Time
	Reason CloseReason
	Err    error
	Life   time.Duration // ready to closed, 0 if it was never ready
	Ops    uint64        // operations that ran on it
	Stale  bool          // found dead
}

// Closed reports the connection's end. The first call counts. The event reaches the sinks later, from a call that holds no lock of the
// pool: drivers' close callbacks run under such locks.
func (c *Conn) Closed(reason CloseReason, err error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	done := c.closed
	c.closed = true
	c.mu.Unlock()
	if done {
		return
	}
	now := Now()
	c.p.live.remove(c)
	c.s.closed[reason].Add(1)
	cl := Close{At: c.Time(now), Reason: reason, Err: err, Ops: c.use.ops.Load()}
	if r := c.ReadyAt(); r.Known() {
		cl.Life = now.Sub(r)
		c.s.record(MeasureLife, OK, cl.Life)
	}
	c.p.deferClose(context.Background(), Event{Kind: KindClose, Conn: c, Close: cl})
}

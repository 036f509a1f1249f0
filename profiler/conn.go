package profiler

import (
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one physical connection: how it was made and what has run on it. Instrumentation makes it with Profiler.NewConn and tells
// it what happens; sinks read it.
//
// Its life: NewConn (the create begins) → Cut, Update, Lost while it is being made → Ready or Fail → Begin for each operation,
// CheckedOut and CheckedIn around use → Closed. All methods of a nil Conn do nothing. The methods for making may be called from any
// goroutine; after Ready or Fail they do nothing. A Closed that comes before waits for them. Begin,
// CheckedOut, CheckedIn and ReturnedAt need what every pool gives: one user at a time. All that asks, Attach and Attached included, may be
// called from any goroutine.
type Conn struct {
	// The fields are ordered to pack: with the allocator's own 8 bytes it fills a block of 896, most of it the Create.
	p        *Profiler
	s        *series
	endpoint *Endpoint // the series' own, but for those that share one
	id       uint64
	started  Instant      // Create.Start; it never changes
	readyAt  atomic.Int64 // Instant of hand-over, 0 before and for a failed create
	use      use          // what the pool's one user at a time keeps here

	mu       sync.Mutex
	role     Role    // never changes
	stage    stage   // mu
	byWire   bool    // mu
	closed   uint8   // mu: 1 + CloseReason, 0 before Closed
	listed   uint32  // registry.mu: 1 + its place there, 0 for none
	cursor   Instant // mu: up to here the create's time is charged
	kind     *string // mu; nil for ""
	watcher  Watcher // mu
	attached *[]any  // mu: key, value, key, value …
	create   Create  // mu until finished, then read-only; Start never changes
}

// stage is how far a create is.
type stage uint8

const (
	making   stage = iota
	ending         // Ready or Fail was called, the watcher makes its last cuts
	finished       // the Create never changes again
)

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
	id := p.ids.Add(1)
	t := p.targets.get(e, p.maxEndpoints())
	c := &Conn{p: p, id: id, role: r, s: t.get(r, id), endpoint: &t.endpoint}
	if t.endpoint != e {
		c.endpoint = &e
	}
	c.s.now.making.begin()
	c.create.Start = time.Now()
	c.started = InstantOf(c.create.Start)
	c.cursor = c.started
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

// Endpoint is where the connection leads: what it is counted by, but for endpoints beyond Profiler.MaxEndpoints.
func (c *Conn) Endpoint() Endpoint {
	if c == nil {
		return Endpoint{}
	}
	return *c.endpoint
}

// Counted is what the connection is counted by in reports: Endpoint, or "(other)" for endpoints beyond Profiler.MaxEndpoints.
func (c *Conn) Counted() Endpoint {
	if c == nil {
		return Endpoint{}
	}
	return c.s.of
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
	if c.kind == nil {
		return ""
	}
	return *c.kind
}

// SetKind sets what Kind returns.
func (c *Conn) SetKind(kind string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kind = &kind
}

// Create tells how the connection was made; nil until that ended. It is read-only.
func (c *Conn) Create() *Create {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != finished {
		return nil
	}
	return &c.create
}

// Time places an Instant on the wall clock; the zero Instant gives the zero time. Everything that one connection reports is placed
// through one anchor, its create's start, so that a step of the wall clock moves the connection as a whole and never stretches a phase.
func (c *Conn) Time(i Instant) time.Time {
	if c == nil || !i.Known() {
		return time.Time{}
	}
	return c.create.Start.Add(i.Sub(c.started))
}

// Since is the offset of i from the create's start; 0 for the zero Instant.
func (c *Conn) Since(i Instant) time.Duration {
	if c == nil || !i.Known() {
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
	if c.attached == nil {
		if v != nil {
			c.attached = &[]any{key, v}
		}
		return
	}
	a := *c.attached
	for i := 0; i < len(a); i += 2 {
		if a[i] == key {
			if v == nil {
				*c.attached = append(a[:i], a[i+2:]...)
			} else {
				a[i+1] = v
			}
			return
		}
	}
	if v != nil {
		*c.attached = append(a, key, v)
	}
}

// Attached returns what was attached under key, nil if nothing was.
func (c *Conn) Attached(key any) any {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil {
		return nil
	}
	a := *c.attached
	for i := 0; i < len(a); i += 2 {
		if a[i] == key {
			return a[i+1]
		}
	}
	return nil
}

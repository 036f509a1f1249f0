package profiler

import "time"

// Close describes a connection's end.
type Close struct {
	At     time.Time
	Reason CloseReason   // CloseUnknown where nothing tells
	Err    error         // the error that it was closed for, nil if none is known
	Life   time.Duration // ready to closed
	Ops    uint64        // operations that ran on it
}

// CloseWithWire says that nothing above the wire will report this connection's end, so that the wire's close has to serve.
func (c *Conn) CloseWithWire() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byWire = true
}

// WireClosed says that the network connection was closed. It ends a connection of any role but RolePool, whose end its pool reports with
// the reason, and of RolePool after CloseWithWire. A create that has not ended yet is ended by whoever began it; if it ends well, it is
// over at once, unless another dial has followed.
func (c *Conn) WireClosed() {
	if c == nil {
		return
	}
	c.mu.Lock()
	ends := c.role != RolePool || c.byWire
	if ends && c.stage != finished && c.closed == 0 {
		c.closed = 1 + uint8(CloseUnknown)
	}
	ends = ends && c.stage == finished
	c.mu.Unlock()
	if ends {
		c.Closed(CloseUnknown, nil)
	}
}

// Closed reports the connection's end. The first call counts. The event reaches the sinks later, from a call that holds no lock of the
// pool: drivers' close callbacks run under such locks. A connection that was never ready has no life and so no end: its failed create
// says all. While the create goes on, the close waits for Ready (and Fail makes it void).
func (c *Conn) Closed(reason CloseReason, err error) { c.ClosedAt(0, reason, err) }

// ClosedAt is Closed for an end at the instant at, for who learns the reason only later; the zero Instant stands for now.
func (c *Conn) ClosedAt(at Instant, reason CloseReason, err error) {
	if c == nil {
		return
	}
	if !at.Known() {
		at = Now()
	}
	if reason >= numCloseReasons {
		reason = CloseUnknown
	}
	c.mu.Lock()
	if c.closed != 0 {
		c.mu.Unlock()
		return
	}
	c.closed = 1 + uint8(reason)
	over := c.stage == finished
	c.mu.Unlock()
	c.p.live.remove(c)
	if over {
		c.end(at, reason, err)
	}
}

// end counts and reports the close of a connection that was ready.
func (c *Conn) end(now Instant, reason CloseReason, err error) {
	ready := c.ReadyAt()
	if !ready.Known() {
		return
	}
	life := max(0, now.Sub(ready))
	c.s.closed[reason].Add(1)
	c.s.record(MeasureLife, OK, life)
	c.p.deferClose(Event{Kind: KindClose, Conn: c, Close: Close{
		At: c.Time(now), Reason: reason, Err: err, Life: life, Ops: c.Ops(), // a pool may close what is in use
	}})
}

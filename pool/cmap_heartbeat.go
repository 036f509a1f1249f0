package pool

import (
	"errors"

	"github.com/connprof/connprof/internal/goid"
)

var errHeartbeat = errors.New("pool: the heartbeat failed")

// Heartbeat takes a server monitor's heartbeat event, on the goroutine that the driver reports it on. The first heartbeat of a monitor
// makes its connection; its end is that create's. The names in the events can't be paired (the first Started says "0", its Succeeded the
// new name), the goroutine can.
func (m *CMAP) Heartbeat(e HeartbeatEvent) {
	if e.Awaited { // on a connection that is already there
		if e.Type == HeartbeatSucceeded {
			m.awaited.Add(1)
			m.awaitedOf(e.ConnectionID)
		}
		return
	}
	g := goid.Get()
	if e.Type == HeartbeatStarted {
		m.open(g, &opening{}).abandon()
		return
	}
	m.mu.Lock()
	o := m.opening[g]
	if o == nil || o.of != nil {
		m.mu.Unlock()
		return
	}
	delete(m.opening, g)
	c := o.conn
	m.mu.Unlock()
	switch e.Type {
	case HeartbeatSucceeded:
		c.Ready(noCaller)
	case HeartbeatFailed:
		if e.Err == nil {
			e.Err = errHeartbeat
		}
		c.Fail(noCaller, e.Err)
	}
}

// open notes what goroutine g has begun to make, and returns what it left unfinished.
func (m *CMAP) open(g uint64, o *opening) (left *opening) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left = m.opening[g]
	switch {
	case left == nil && len(m.opening) >= maxOpening:
		m.dropped.Add(1)
		if o.of != nil {
			o.of.creator = 0
		}
	default:
		if m.opening == nil {
			m.opening = make(map[uint64]*opening)
		}
		m.opening[g] = o
	}
	if left != nil && left.of != nil {
		m.removeLocked(left.of)
	}
	return left
}

// abandon ends what a goroutine left unfinished.
func (o *opening) abandon() {
	if o == nil {
		return
	}
	o.conn.Fail(noCaller, errAbandoned)
	if o.of != nil {
		o.of.conn.Fail(noCaller, errAbandoned)
	}
}

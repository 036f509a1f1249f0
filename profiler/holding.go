package profiler

import (
	"sync/atomic"
	"time"
)

// holding is what a report may know of a connection's use while the use goes on: who has it, since when nothing has happened on it, and
// how many operations ran. All three are in one word, so that an operation pays for three stores and a report needs no lock:
//
//	operations (34 bits) | time of the last change, in units of 2^26 ns = 67 ms (28 bits) | state (2 bits)
//
// The time wraps around after 208 days.
type holding struct{ word atomic.Uint64 }

type holdingState uint64

const (
	idle    holdingState = iota // in the pool
	held                        // with a caller, no call of the driver's is going on
	running                     // with a caller, in a call of the driver's
)

const (
	tickBits  = 26
	tickWidth = 28
	tickMask  = 1<<tickWidth - 1
	opsShift  = tickWidth + 2
)

func (h *holding) set(s holdingState, ops uint64, at Instant) {
	h.word.Store(ops<<opsShift | uint64(at>>tickBits)&tickMask<<2 | uint64(s))
}

func (h *holding) ops() uint64 { return h.word.Load() >> opsShift }

// heldIdle is how long the connection has been held with nothing happening on it; 0 if it is not.
func (h *holding) heldIdle(now Instant) time.Duration {
	w := h.word.Load()
	if holdingState(w&3) != held {
		return 0
	}
	ticks := (uint64(now>>tickBits) - w>>2) & tickMask
	if ticks > tickMask/2 { // a change after now
		return 0
	}
	return time.Duration(ticks) << tickBits
}

// HeldIdle is how long the connection has been in a caller's hands with nothing happening on it, to within 0.1 s: 0 while it is in the
// pool, while a call of the driver's is going on, and where the pool doesn't tell.
func (c *Conn) HeldIdle() time.Duration {
	if c == nil {
		return 0
	}
	return c.use.holding.heldIdle(Now())
}

// addHeldIdle counts the connections that are held idle, and who holds them.
func (r *Report) addHeldIdle(p *Profiler) {
	after := p.heldIdleAfter()
	now := Now()
	for _, c := range p.live.all() {
		if c.use.holding.heldIdle(now) < after {
			continue
		}
		holder, known := c.holder()
		d := c.use.holding.heldIdle(now)
		if d < after { // it is another's by now
			continue
		}
		for i := range r.Endpoints {
			if e := &r.Endpoints[i]; e.Endpoint == c.s.of && e.Role == c.role.String() {
				e.HeldIdle++
				e.HeldIdleLongest = max(e.HeldIdleLongest, d)
				if known {
					e.addHolder(holder, d)
				}
			}
		}
	}
	for i := range r.Endpoints {
		r.Endpoints[i].sortHolders()
	}
}

// StatementClosed says that a statement that the caller had prepared was closed after it had run the given number of times.
func (c *Conn) StatementClosed(ran int) {
	if c == nil || c.p.off.Load() {
		return
	}
	c.s.statements.Add(1)
	if ran == 1 {
		c.s.once.Add(1)
	}
}

// PreparedFor says that preparing a statement for one call took d.
func (c *Conn) PreparedFor(d time.Duration) {
	if c != nil && !c.p.off.Load() {
		c.s.prepareTime.Add(int64(d))
	}
}

package pool

import (
	"context"
	"errors"
	"sync/atomic"
)

// pending counts the callers who wait at one address. It outlives the address's site, so that each caller is taken off where it was added.
type pending struct {
	address  string
	asked    atomic.Int64 // callers who ever asked for a connection
	answered atomic.Int64 // those of them who have one, or are told that there is none
	timeouts atomic.Int64
}

// pendingOf is nil for an address beyond maxSites. The first one, which most clients use alone, is found without a map.
func (m *CMAP) pendingOf(address string) *pending {
	if p := m.onePending.Load(); p != nil && p.address == address {
		return p
	}
	v, ok := m.pending.Load(address)
	if !ok {
		if m.pendings.Load() >= maxSites {
			return nil
		}
		var there bool
		if v, there = m.pending.LoadOrStore(address, &pending{address: address}); !there {
			m.pendings.Add(1)
		}
	}
	p := v.(*pending)
	m.onePending.CompareAndSwap(nil, p)
	return p
}

func (p *pending) asks() {
	if p != nil {
		p.asked.Add(1)
	}
}

func (p *pending) answer() {
	if p != nil {
		p.answered.Add(1)
	}
}

// callers is how many wait now: read in this order, it is never too few for long.
func (p *pending) callers() int64 {
	answered := p.answered.Load()
	return max(0, p.asked.Load()-answered)
}

// failed counts an answer that came to nothing; one whose deadline passed is a timeout, one who gave up is none.
func (p *pending) failed(e *PoolEvent) {
	p.answer()
	if p != nil && e.Reason == "timeout" && !errors.Is(e.Err, context.Canceled) {
		p.timeouts.Add(1)
	}
}

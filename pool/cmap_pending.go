package pool

import (
	"context"
	"errors"
	"sync/atomic"
)

// pending counts the callers who wait at one address. It outlives the address's site, so that each caller is taken off where it was added.
type pending struct {
	address  string
	callers  atomic.Int64
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

// waits counts a caller who asks, and n = -1 one who has an answer.
func (p *pending) waits(n int64) {
	if p != nil {
		p.callers.Add(n)
	}
}

// failed counts an answer that came to nothing; one whose deadline passed is a timeout, one who gave up is none.
func (p *pending) failed(e *PoolEvent) {
	p.waits(-1)
	if p != nil && e.Reason == "timeout" && !errors.Is(e.Err, context.Canceled) {
		p.timeouts.Add(1)
	}
}

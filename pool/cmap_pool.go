package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// noCaller is the context of what runs under none: the drivers make their connections in the background.
var noCaller context.Context

var errAbandoned = errors.New("pool: the driver began another connection before this one was ready")

// Pool takes an event of the client's pools, on the goroutine that the driver reports it on.
func (m *CMAP) Pool(e PoolEvent) {
	switch e.Type {
	case connectionCheckedOut:
		m.checkedOut(&e)
	case connectionCheckedIn:
		m.checkedIn(&e)
	case connectionCreated:
		m.created(&e)
	case connectionReady:
		m.ready(&e)
	case connectionClosed:
		m.closed(&e)
	case poolClosed:
		m.poolClosed(&e)
	}
}

// created begins a create. The driver's own clock for ConnectionReady starts when this returns.
func (m *CMAP) created(e *PoolEvent) {
	g := goid.Get()
	k := &member{slot: slot{e.Address, e.ConnectionID}, creator: g}
	k.conn = m.Profiler.NewConn(m.endpoint(e.Address), profiler.RolePool)
	m.open(g, &opening{of: k})
	m.mu.Lock()
	m.addLocked(k)
	m.mu.Unlock()
	if k.unlisted {
		k.conn.CloseWithWire()
	}
}

// made is the member that this goroutine was making, which it no longer is.
func (m *CMAP) made(s slot) *member {
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.opening[g]
	if o == nil || o.of == nil || o.of.slot != s {
		return nil
	}
	m.madeLocked(o.of)
	return o.of
}

// madeLocked notes that k's goroutine has done with it.
func (m *CMAP) madeLocked(k *member) {
	if o := m.opening[k.creator]; o != nil && o.of == k {
		delete(m.opening, k.creator)
	}
	k.creator = 0
}

// ready ends a create. Where only one connection has the event's name, its goroutine is not asked for: that would be part of the create.
func (m *CMAP) ready(e *PoolEvent) {
	s := slot{e.Address, e.ConnectionID}
	m.mu.Lock()
	k := m.newestLocked(s)
	if k == nil || k.older != nil {
		m.mu.Unlock()
		if k = m.made(s); k == nil {
			return
		}
		m.mu.Lock()
	}
	interrupted := k.closed.Load()
	if interrupted {
		m.removeLocked(k)
	} else {
		m.madeLocked(k)
		k.ready.Store(true)
	}
	m.mu.Unlock()
	if !interrupted {
		k.conn.Ready(noCaller)
	}
}

func (m *CMAP) checkedOut(e *PoolEvent) {
	k := m.find(e, isIdle)
	if k == nil {
		return
	}
	k.out.Store(true)
	if !k.known.Load() && m.Profiler.Enabled() {
		m.join(k)
	}
	if !k.vague.Load() {
		now := profiler.Now()
		k.conn.CheckedOut(noCaller, now.Add(-e.Duration), now)
	}
}

func (m *CMAP) checkedIn(e *PoolEvent) {
	k := m.find(e, isOut)
	if k == nil {
		return
	}
	if !k.vague.Load() {
		k.conn.CheckedIn(profiler.Now())
	}
	k.out.Store(false)
	if !k.known.Load() || k.closed.Load() {
		m.mu.Lock()
		m.unjoinLocked(k)
		if k.closed.Load() {
			m.removeLocked(k)
		}
		m.mu.Unlock()
	}
}

// closed ends the create of a connection that was not ready, the life of one that was.
func (m *CMAP) closed(e *PoolEvent) {
	s := slot{e.Address, e.ConnectionID}
	reason := closeReasons[e.Reason]
	m.mu.Lock()
	k, one := m.fittingLocked(s, isOpen)
	m.mu.Unlock()
	if k == nil || !one || !k.ready.Load() {
		if mine := m.made(s); mine != nil { // this goroutine's own create failed
			k, one = mine, true
		}
	}
	if k == nil {
		return
	}
	if !one {
		k, reason = m.closing(s, reason)
	}
	m.mu.Lock()
	wasReady := k.ready.Load()
	k.closed.Store(true)
	switch {
	case !wasReady && k.creator != 0: // its goroutine is still at it
	case !k.out.Load() || k.vague.Load():
		m.removeLocked(k)
	}
	m.mu.Unlock()
	if wasReady {
		k.conn.Closed(reason, e.Err)
	} else {
		k.conn.Fail(noCaller, early(e))
	}
}

// closing picks one of several members of a slot. An idle connection is closed for its age, a pool that is gone was the older. If that
// does not leave one, the oldest is closed for a reason not known, so that the counts stay right.
func (m *CMAP) closing(s slot, reason profiler.CloseReason) (*member, profiler.CloseReason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reason == profiler.CloseIdleTime {
		if k, one := m.fittingLocked(s, func(k *member) bool { return isOpen(k) && isIdle(k) }); one {
			return k, reason
		}
	}
	k, _ := m.fittingLocked(s, isOpen)
	return k, profiler.CloseUnknown
}

var closeReasons = map[string]profiler.CloseReason{
	"idle":       profiler.CloseIdleTime,
	"stale":      profiler.CloseStale,
	"error":      profiler.CloseError,
	"poolClosed": profiler.ClosePoolClosed,
}

// early is why a create failed that was closed before it was ready.
func early(e *PoolEvent) error {
	switch {
	case e.Err != nil:
		return e.Err
	case e.Reason == "poolClosed":
		return fmt.Errorf("pool: closed while it was connecting: %w", context.Canceled)
	}
	return fmt.Errorf("pool: connection closed before it was ready: %s", e.Reason)
}

// poolClosed forgets creates that the pool interrupted and that their goroutine, now gone, never ended.
func (m *CMAP) poolClosed(e *PoolEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.opening {
		if o.of != nil && o.of.slot.address == e.Address && o.of.closed.Load() {
			m.removeLocked(o.of)
		}
	}
}

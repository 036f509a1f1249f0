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

// Pool takes an event of the client's pools, on the goroutine that the driver reports it on. It does not keep e.
func (m *CMAP) Pool(e *PoolEvent) {
	switch e.Type {
	case connectionCheckedOut:
		m.pendingOf(e.Address).answer()
		m.checkedOut(e)
	case connectionCheckedIn:
		m.checkedIn(e)
	case connectionCreated:
		m.created(e)
	case connectionReady:
		m.ready(e)
	case connectionClosed:
		m.closed(e)
	case poolCreated:
		m.poolCreated(e)
	case checkOutStarted:
		m.asking()
		m.pendingOf(e.Address).asks()
	case poolCleared:
		m.cleared(e)
	case poolReady:
		m.usedAgain(e.Address)
	case checkOutFailed:
		m.usedAgain(e.Address)
		m.pendingOf(e.Address).failed(e)
		m.checkOutFailed(e)
	case poolClosed:
		m.poolClosed(e)
	}
}

// created begins a create. The driver's own clock for ConnectionReady starts when this returns, so that ours starts as late as it can.
func (m *CMAP) created(e *PoolEvent) {
	g := goid.Get()
	k := &member{slot: slot{e.Address, e.ConnectionID}, creator: g}
	if p := m.pendingOf(e.Address); p != nil {
		k.asksBefore.Store(p.asked.Load() + 1)
	}
	on := m.Profiler.Enabled()
	e1 := m.endpoint(e.Address)
	left := m.open(g, &opening{of: k})
	m.mu.Lock()
	k.site = m.siteLocked(e.Address)
	k.site.begin()
	if on {
		k.conn = m.Profiler.NewConn(e1, profiler.RolePool)
	}
	m.addLocked(k)
	m.mu.Unlock()
	left.abandon()
	if k.unlisted {
		k.conn.CloseWithWire()
	}
}

// makingLocked is the member with that name which goroutine g is making.
func (m *CMAP) makingLocked(g uint64, s slot) *member {
	if o := m.opening[g]; o != nil && o.of != nil && o.of.slot == s {
		return o.of
	}
	return nil
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
		g := goid.Get()
		m.mu.Lock()
		k = m.makingLocked(g, s)
	}
	interrupted := k != nil && k.closed.Load()
	var wire follower
	switch {
	case k == nil:
	case interrupted:
		m.removeLocked(k)
	default:
		m.madeLocked(k)
		wire = m.followedLocked(k)
		k.ready.Store(true)
	}
	m.mu.Unlock()
	if k != nil && !interrupted {
		k.conn.Ready(noCaller)
		m.follow(k, wire)
		k.site.made(true)
	}
}

func (m *CMAP) checkedOut(e *PoolEvent) {
	k := m.find(e, isIdle)
	if k == nil {
		m.doubt(e)
		return
	}
	k.out.Store(true)
	if k.draining.Load() {
		k.notDraining(m)
	}
	if !m.Profiler.Enabled() {
		return
	}
	if !k.known.Load() {
		m.join(k)
	}
	if !k.vague.Load() {
		now := profiler.Now()
		asked := now.Add(-e.Duration)
		if k.asksBefore.Load() != 0 {
			asked, now = m.firstAsked(k, asked, now, e.Duration)
		}
		k.conn.CheckedOut(noCaller, asked, now)
		if e.Duration >= queuedEnough {
			k.site.waited(asked, e.Duration-k.conn.MadeDuring(asked, now))
		}
	}
}

// checkOutFailed counts a caller who got nothing: it queued as the others do, and what it would have repeated is over.
func (m *CMAP) checkOutFailed(e *PoolEvent) {
	m.notRepeated(e.Reason == "poolClosed")
	now := profiler.Now()
	m.Profiler.WaitFailed(noCaller, m.endpoint(e.Address), now.Add(-e.Duration), now, refusal(e))
	if e.Reason != "timeout" || !m.Profiler.Enabled() {
		return
	}
	m.mu.Lock()
	s := m.siteLocked(e.Address)
	m.mu.Unlock()
	s.waited(profiler.Now().Add(-e.Duration), e.Duration)
}

func (m *CMAP) checkedIn(e *PoolEvent) {
	k := m.find(e, isOut)
	if k == nil {
		m.unjoin()
		m.notRepeated(true)
		return
	}
	if !k.vague.Load() && m.Profiler.Enabled() {
		var at profiler.Instant // of one command: its end, microseconds ago
		if m.Pinning {
			at = profiler.Now()
		}
		k.conn.CheckedIn(at)
	}
	if k.gaveUp {
		k.gaveUp = false
		if !k.closed.Load() && !k.vague.Load() {
			k.draining.Store(true)
			m.draining.Add(1)
			k.site.draining.Add(1)
		}
	}
	k.out.Store(false)
	if m.holding.Load() > 0 {
		m.notRepeated(true)
	}
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
	m.mu.Lock()
	k, one := m.fittingLocked(s, isOpen)
	if !one || !k.ready.Load() {
		m.mu.Unlock()
		g := goid.Get()
		m.mu.Lock()
		if mine := m.makingLocked(g, s); mine != nil { // this goroutine's own create failed
			k, one = mine, true
			m.madeLocked(k)
		} else {
			k, one = m.fittingLocked(s, isOpen)
		}
	}
	if k == nil {
		m.mu.Unlock()
		return
	}
	reason := closeReasons[e.Reason]
	if !one {
		k = m.closingLocked(s, reason)
	}
	if k.lost {
		reason = profiler.CloseUnknown
	}
	wasReady := k.ready.Load()
	k.closed.Store(true)
	if wasReady {
		k.site.closed(e.Reason == "idle")
	} else {
		k.site.made(false)
	}
	k.notDraining(m)
	cause := e.Err
	if reason == profiler.CloseStale && cause == nil {
		cause = k.site.cause
	}
	switch {
	case !wasReady && k.creator != 0: // its goroutine is still at it
	case !k.out.Load() || k.vague.Load():
		m.removeLocked(k)
	}
	m.mu.Unlock()
	if wasReady {
		k.conn.Closed(reason, cause)
	} else {
		k.conn.Fail(noCaller, early(e))
	}
}

// closingLocked picks one of several open members of a slot. If neither state nor reason tells which, it is the oldest, so that the
// counts stay right; which are left is then not known either, and all are lost.
func (m *CMAP) closingLocked(s slot, reason profiler.CloseReason) *member {
	fits := isOpen
	switch reason {
	case profiler.CloseIdleTime:
		fits = isIdle
	case profiler.CloseError, profiler.ClosePoolClosed: // one in the making would be closed by its own goroutine
		fits = isMade
	}
	k, one := m.fittingLocked(s, fits)
	if one {
		return k
	}
	for o := m.newestLocked(s); o != nil; o = o.older {
		o.vague.Store(true)
		o.lost = true
	}
	if k == nil {
		k, _ = m.fittingLocked(s, isOpen)
	}
	return k
}

var closeReasons = map[string]profiler.CloseReason{
	"idle":       profiler.CloseIdleTime,
	"stale":      profiler.CloseStale,
	"error":      profiler.CloseError,
	"poolClosed": profiler.ClosePoolClosed,
}

// refusal is why a caller got no connection.
func refusal(e *PoolEvent) error {
	if e.Err != nil {
		return e.Err
	}
	return fmt.Errorf("pool: no connection: %s", e.Reason)
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
	now := profiler.Now()
	m.giveUp(func(h *heldOp) bool { return m.expired(h, now) })
	m.unwatch(e.Address)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.opening {
		if o.of != nil && o.of.slot.address == e.Address && o.of.closed.Load() {
			m.removeLocked(o.of)
		}
	}
}

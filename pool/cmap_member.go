package pool

import (
	"sync/atomic"

	"github.com/connprof/connprof/profiler"
)

// slot is how pool events name a connection.
type slot struct {
	address string
	id      uint64
}

// member is one connection of a pool, from ConnectionCreated to ConnectionClosed (to ConnectionCheckedIn, where that comes later: a
// pool that interrupts its users closes first).
//
// Two pools of one client can have members in one slot: a server that was removed and came back before its old pool was empty, the
// inner client of client-side encryption, or two clients made from one set of options. Members of one slot form a list, the newest
// first. An event then belongs to the one whose state it fits (only an idle one can be checked out). If it fits several it is not
// guessed: none of them learns of it, and they are vague from then on: their use and idle times and waits are no longer recorded. Their
// commands still are, where the driver's name for them is known already or can be learned (cmap_doubt.go).
type member struct {
	conn *profiler.Conn
	slot slot

	older    *member  // CMAP.mu
	creator  uint64   // CMAP.mu: the goroutine that makes it, 0 once that is over
	user     uint64   // CMAP.mu: the goroutine in CMAP.joining, 0 if none
	driver   string   // CMAP.mu: the driver's name for it, "" until known
	gone     bool     // CMAP.mu: no longer in its slot
	wire     follower // CMAP.mu: until driver is known, where others may be in its slot
	unlisted bool     // CMAP.mu: beyond the bound, never was in its slot
	lost     bool     // CMAP.mu: one of its slot was closed, perhaps this one

	known  atomic.Bool // driver is set
	shared atomic.Bool // others are in its slot
	vague  atomic.Bool
	ready  atomic.Bool
	out    atomic.Bool // checked out
	closed atomic.Bool

	asksBefore atomic.Int64 // until its first use: pending.asked when its create began, and 1; 0 if not known

	removed    atomic.Bool // out of the slot, for recent
	draining   atomic.Bool // came back while a reply is still to come
	gaveUp     bool        // the user's: its last command ended before its reply
	collection string      // the user's: the last one that a reply named
	text       started     // the user's: the command that began and has not ended
	op         profiler.Op // the user's: of the command that is reported now
	site       *site
}

// addLocked puts k into its slot.
func (m *CMAP) addLocked(k *member) {
	if m.size >= maxMembers {
		m.dropped.Add(1)
		k.unlisted = true
		return
	}
	m.size++
	if v, ok := m.slots.Load(k.slot); ok {
		k.older = v.(*member)
		k.shared.Store(true)
		for o := k.older; o != nil; o = o.older {
			o.shared.Store(true)
		}
	}
	m.slots.Store(k.slot, k)
}

// removeLocked takes k out of everything.
func (m *CMAP) removeLocked(k *member) {
	m.madeLocked(k)
	m.unjoinLocked(k)
	if k.known.Load() {
		m.named.Delete(k.driver)
	}
	m.recent.forget(k)
	k.unfollowLocked()
	k.notDraining(m)
	if k.gone || k.unlisted {
		return
	}
	k.gone = true
	m.size--
	v, _ := m.slots.Load(k.slot)
	head := v.(*member)
	if head == k {
		head = k.older
	} else {
		o := head
		for o.older != k {
			o = o.older
		}
		o.older = k.older
	}
	if head == nil {
		m.slots.Delete(k.slot)
		return
	}
	m.slots.Store(k.slot, head)
	if head.older == nil {
		head.shared.Store(false)
	}
}

// unjoinLocked forgets that k's name is to be learned from its user.
func (m *CMAP) unjoinLocked(k *member) {
	if k.user == 0 {
		return
	}
	delete(m.joining, k.user)
	k.user = 0
	m.waiting.Store(int32(len(m.joining) + len(m.doubts)))
}

// find is the one member of the event's slot that fits, nil if there is none or if nothing tells which.
func (m *CMAP) find(e *PoolEvent, fits func(*member) bool) *member {
	k := m.recent.slot(e.Address, e.ConnectionID)
	if k == nil {
		v, ok := m.slots.Load(slot{e.Address, e.ConnectionID})
		if !ok {
			return nil
		}
		k = v.(*member)
		m.recent.keepID(k)
	}
	if !k.shared.Load() {
		return k
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := slot{e.Address, e.ConnectionID}
	k, one := m.fittingLocked(s, fits)
	if one {
		return k
	}
	for o := m.newestLocked(s); o != nil; o = o.older {
		if !fits(o) {
			continue
		}
		o.vague.Store(true)
		if o.closed.Load() { // its ConnectionCheckedIn would not be told
			m.removeLocked(o)
		}
	}
	return nil
}

func (m *CMAP) newestLocked(s slot) *member {
	if v, ok := m.slots.Load(s); ok {
		return v.(*member)
	}
	return nil
}

// fittingLocked is the oldest member of a slot that fits, and whether it is the only one.
func (m *CMAP) fittingLocked(s slot, fits func(*member) bool) (k *member, one bool) {
	for o := m.newestLocked(s); o != nil; o = o.older {
		if fits(o) {
			one = k == nil
			k = o
		}
	}
	return k, one
}

func isOpen(k *member) bool { return !k.closed.Load() }
func isMade(k *member) bool { return k.ready.Load() && isOpen(k) }
func isIdle(k *member) bool { return isMade(k) && (!k.out.Load() || k.vague.Load()) }
func isOut(k *member) bool  { return k.out.Load() || k.vague.Load() }

// notDraining ends what checkedIn noted.
func (k *member) notDraining(m *CMAP) {
	if k.draining.CompareAndSwap(true, false) {
		m.draining.Add(-1)
		k.site.draining.Add(-1)
	}
}

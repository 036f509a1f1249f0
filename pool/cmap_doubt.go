package pool

import (
	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// Clients made from one set of options have pools whose events name connections alike, so that it is in doubt which of several a caller was
// given. The driver's name, which the end of a command tells, is one connection's for ever, and is still learned: a command is written by
// the goroutine that checked the connection out, and the wire of such connections says which goroutine wrote last.

// doubt is what a goroutine has checked out.
type doubt struct {
	slot slot
	text started // the command that it began since
}

// follower is the Meter of a wire that tells.
type follower interface {
	profiler.Meter
	FollowWriter()
	Writer() uint64
	Forget(goroutine uint64)
}

// followedLocked is the wire of a connection that is about to be ready, if others may be named like it; else nil, and nothing is followed.
func (m *CMAP) followedLocked(k *member) follower {
	if k.unlisted || len(k.site.stops) < 2 && !k.shared.Load() {
		return nil
	}
	w, _ := k.conn.Meter().(follower)
	return w
}

// follow begins to follow who writes, now that the connection is ready and before anybody has it.
func (m *CMAP) follow(k *member, w follower) {
	if w == nil {
		return
	}
	w.FollowWriter()
	w.Begin()
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.wire = w; k.gone {
		k.unfollowLocked()
	}
}

func (k *member) unfollowLocked() {
	if k.wire != nil {
		k.wire.End()
		k.wire = nil
	}
}

// doubt notes that this goroutine has checked out some connection of the event's slot.
func (m *CMAP) doubt(e *PoolEvent) {
	s := slot{e.Address, e.ConnectionID}
	if _, ok := m.slots.Load(s); !ok || !m.Profiler.Enabled() {
		m.unjoin()
		return
	}
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.joining[g]; k != nil {
		m.unjoinLocked(k)
	}
	m.doubtLocked(g, s)
}

// doubtLocked notes that goroutine g has checked out some connection of slot s.
func (m *CMAP) doubtLocked(g uint64, s slot) {
	followed := false
	for o := m.newestLocked(s); o != nil; o = o.older {
		if o.wire != nil {
			o.wire.Forget(g)
			followed = true
		}
	}
	if !followed {
		delete(m.doubts, g)
	} else {
		if m.doubts == nil || len(m.doubts) >= maxOpening { // goroutines that ended without another use
			m.doubts = make(map[uint64]doubt)
		}
		m.doubts[g] = doubt{slot: s}
	}
	m.waiting.Store(int32(len(m.joining) + len(m.doubts)))
}

// begins keeps the start of a command that this goroutine has not written yet, and says whether it is in doubt where it will.
func (m *CMAP) begins(e *StartedEvent) bool {
	if m.waiting.Load() == 0 {
		return false
	}
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.doubts[g]
	if ok && names(e.ConnectionID, d.slot.address) {
		d.text = startOf(e)
		m.doubts[g] = d
	}
	return ok
}

// settledLocked is the connection that goroutine g was in doubt about and has written to, and the command that began on it; nil if none is
// known to be it.
func (m *CMAP) settledLocked(g uint64, driver string) (*member, started) {
	d, ok := m.doubts[g]
	if !ok {
		return nil, started{}
	}
	m.assuredLocked(g)
	if !names(driver, d.slot.address) {
		return nil, started{}
	}
	for o := m.newestLocked(d.slot); o != nil; o = o.older {
		if o.wire != nil && o.wire.Writer() == g {
			return o, d.text
		}
	}
	return nil, started{}
}

// assuredLocked ends goroutine g's doubt.
func (m *CMAP) assuredLocked(g uint64) {
	delete(m.doubts, g)
	m.waiting.Store(int32(len(m.joining) + len(m.doubts)))
}

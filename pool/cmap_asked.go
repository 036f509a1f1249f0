package pool

import (
	"time"

	"github.com/connprof/connprof/profiler"
)

// The driver says how long a caller waited, not since when, and says so a little after the wait ended: the scheduler may come between. The
// instant that follows from it is late by that much, and so a caller may seem to have asked after the create that was begun for it. That it
// did not is certain where no caller asked since: then who has the connection first had asked before.

// firstAsked corrects when the first user of a connection asked (never later than the create began, if nobody asked since) and had it. The
// wait stays what the driver says.
func (m *CMAP) firstAsked(k *member, asked, now profiler.Instant, wait time.Duration) (askedThen, had profiler.Instant) {
	before := k.asksBefore.Swap(0)
	if before == 0 {
		return asked, now
	}
	if p := m.pendingOf(k.slot.address); p == nil || before != p.asked.Load()+1 {
		return asked, now
	}
	cr := k.conn.Create()
	if cr == nil || wait < cr.Duration {
		return asked, now
	}
	begun := profiler.InstantOf(cr.Start)
	if asked <= begun {
		return asked, now
	}
	return begun, begun.Add(wait)
}

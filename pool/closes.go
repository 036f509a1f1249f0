package pool

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"github.com/connprof/connprof/profiler"
)

// closes finds out why the pool closed connections that had nothing wrong with them. database/sql counts such a close by its reason
// (MaxIdleClosed, MaxIdleTimeClosed, MaxLifetimeClosed) before it closes the connection, and closes some of them with its own lock held,
// so that the driver's Close must not ask for the counters. A close is therefore kept here, and explained at the next call that holds no
// lock of the pool: a Connect, the DB's Close, a Report or a Flush. Each count explains one close. Where the counts of several reasons
// rose between two looks, the connection's age and idle time and the given limits may rule all but one out; if not, the reason stays
// unknown. What no count explains was closed by the DB's Close, if that is what is going on, and is unknown otherwise.
type closes struct {
	stats  func() sql.DBStats // nil: nothing is ever explained
	limits Limits

	waiting atomic.Int32 // len(list)
	over    atomic.Bool  // the DB is closed

	mu    sync.Mutex // taken in Close, so that nothing of the pool's is called under it
	list  []closing  // mu
	spare []closing  // mu: what list was, to be used again

	explaining sync.Mutex // orders those who explain
	explained  [3]int64   // explaining: the counts that were used up, by reasons
}

// closing is a connection that was closed for a reason that it does not know itself.
type closing struct {
	conn      *profiler.Conn
	at        profiler.Instant
	age, idle time.Duration // idle is less than 0 if not known
}

// maxClosing bounds the closes that wait to be explained: those beyond have no reason.
const maxClosing = 1024

var reasons = [3]profiler.CloseReason{profiler.CloseIdleLimit, profiler.CloseIdleTime, profiler.CloseLifetime}

// closed reports the end of a connection, now or once it is explained.
func (cs *closes) closed(c *profiler.Conn, returned profiler.Instant) {
	if cs == nil || cs.stats == nil {
		c.Closed(profiler.CloseUnknown, nil)
		return
	}
	if cs.over.Load() { // a connection that comes back to a closed DB
		c.Closed(profiler.ClosePoolClosed, nil)
		return
	}
	now := profiler.Now()
	x := closing{conn: c, at: now, age: now.Sub(c.ReadyAt()), idle: -1}
	if returned.Known() {
		x.idle = now.Sub(returned)
	}
	cs.mu.Lock()
	full := len(cs.list) >= maxClosing
	if !full {
		cs.list = append(cs.list, x)
		cs.waiting.Store(int32(len(cs.list)))
	}
	cs.mu.Unlock()
	if full {
		c.Closed(profiler.CloseUnknown, nil)
	}
}

// poll explains what waits, if anything does. The caller must hold no lock of the pool.
func (cs *closes) poll() {
	if cs != nil && cs.waiting.Load() > 0 {
		cs.look()
	}
}

// end is poll for the DB's Close.
func (cs *closes) end() {
	if cs != nil && cs.stats != nil {
		cs.over.Store(true)
		cs.look()
	}
}

// look takes the closes first and then the counters: these then cover them.
func (cs *closes) look() sql.DBStats {
	cs.mu.Lock()
	list := cs.list
	cs.list, cs.spare = cs.spare, nil
	cs.waiting.Store(0)
	cs.mu.Unlock()
	s := cs.stats()
	cs.explain(list, s)
	if cap(list) > 0 && cap(list) <= 64 {
		clear(list)
		cs.mu.Lock()
		cs.spare = list[:0]
		cs.mu.Unlock()
	}
	return s
}

func (cs *closes) explain(list []closing, s sql.DBStats) {
	cs.explaining.Lock()
	defer cs.explaining.Unlock()
	var left [3]int64 // counts that explain nothing yet
	var sum int64
	for i, n := range [3]int64{s.MaxIdleClosed, s.MaxIdleTimeClosed, s.MaxLifetimeClosed} {
		left[i] = max(0, n-cs.explained[i])
		sum += left[i]
	}
	// A close that no count explains is among the list, and nothing tells which one it is.
	surplus := int64(len(list)) > sum && sum > 0
	unknown := 0
	for _, x := range list {
		i := -1
		if !surplus || cs.over.Load() {
			i = cs.only(x, left)
		}
		switch {
		case i >= 0:
			left[i]--
			cs.explained[i]++
			x.conn.ClosedAt(x.at, reasons[i], nil)
		case cs.over.Load() && left == [3]int64{}:
			x.conn.ClosedAt(x.at, profiler.ClosePoolClosed, nil)
		default:
			unknown++
			x.conn.ClosedAt(x.at, profiler.CloseUnknown, nil)
		}
	}
	if unknown > 0 { // which counts these used up is not known: begin anew
		for i, n := range left {
			cs.explained[i] += n
		}
	}
}

// only is the one reason that can explain x, -1 if there is none or more than one.
func (cs *closes) only(x closing, left [3]int64) int {
	possible := [3]bool{
		left[0] > 0,
		left[1] > 0 && (x.idle < 0 || x.idle >= cs.limits.ConnMaxIdleTime),
		left[2] > 0 && x.age >= cs.limits.ConnMaxLifetime,
	}
	found := -1
	for i, ok := range possible {
		if ok && found >= 0 {
			return -1
		} else if ok {
			found = i
		}
	}
	return found
}

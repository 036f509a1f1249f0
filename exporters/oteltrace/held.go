package oteltrace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/connprof/connprof/profiler"
)

const (
	// holdFor is how long a create waits for its first operation.
	holdFor = 10 * time.Second
	// maxHeld bounds the creates that wait; one more makes the oldest a root.
	maxHeld = 256
)

// held lists the creates without a caller that wait for their first operation, the oldest first. Each one's connState says whether it still
// waits: the list serves only to find those that nothing happens to.
type held struct {
	due atomic.Int64 // Instant at which the oldest is overdue, 0 if there is none

	mu   sync.Mutex
	list []heldCreate // mu
}

type heldCreate struct {
	conn *profiler.Conn
	st   *connState
	due  profiler.Instant
}

func (h *held) updateLocked() {
	if len(h.list) == 0 {
		h.due.Store(0)
		return
	}
	h.due.Store(int64(h.list[0].due))
}

// add returns the oldest if the list is full.
func (h *held) add(x heldCreate) (oldest heldCreate, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if full = len(h.list) >= maxHeld; full {
		oldest = h.popLocked()
	}
	h.list = append(h.list, x)
	h.updateLocked()
	return oldest, full
}

func (h *held) popLocked() heldCreate {
	x := h.list[0]
	copy(h.list, h.list[1:])
	h.list[len(h.list)-1] = heldCreate{}
	h.list = h.list[:len(h.list)-1]
	return x
}

func (h *held) remove(st *connState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.list {
		if h.list[i].st == st {
			copy(h.list[i:], h.list[i+1:])
			h.list[len(h.list)-1] = heldCreate{}
			h.list = h.list[:len(h.list)-1]
			break
		}
	}
	h.updateLocked()
}

func (h *held) takeOverdue(now profiler.Instant) (heldCreate, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.list) == 0 || now < h.list[0].due {
		return heldCreate{}, false
	}
	x := h.popLocked()
	h.updateLocked()
	return x, true
}

func (h *held) takeAll() []heldCreate {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.list
	h.list = nil
	h.updateLocked()
	return l
}

func (s *Sink) hold(c *profiler.Conn, st *connState) {
	ready := st.create.Start.Add(st.create.Duration)
	oldest, full := s.held.add(heldCreate{c, st, profiler.InstantOf(ready).Add(holdFor) | 1})
	if full {
		s.emitHeld(oldest.conn, oldest.st, root)
	}
}

// emitHeld emits the create that st holds, if it still does.
func (s *Sink) emitHeld(c *profiler.Conn, st *connState, p parent) {
	if !st.isHeld() {
		return
	}
	s.held.remove(st)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.held {
		st.held = false
		s.emitConnectionLocked(c, st, p)
	}
}

// emitOverdue emits as roots the creates that nobody used in time, as seen from an event at the time at. With nothing held, which is the
// rule, it costs one load: every event comes here.
func (s *Sink) emitOverdue(at *time.Time) {
	if s.held.due.Load() != 0 {
		s.emitDue(profiler.InstantOf(*at))
	}
}

func (s *Sink) emitDue(now profiler.Instant) {
	for {
		due := s.held.due.Load()
		if due == 0 || int64(now) < due {
			return
		}
		if h, ok := s.held.takeOverdue(now); ok {
			s.emitHeld(h.conn, h.st, root)
		}
	}
}

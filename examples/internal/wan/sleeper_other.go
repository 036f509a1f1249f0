//go:build !linux

package wan

import "time"

// sleeper sleeps as exactly as time.Sleep does: in a process that is otherwise idle it may be up to 1 ms late.
type sleeper struct{ done chan struct{} }

func (s *sleeper) open() error {
	s.done = make(chan struct{})
	return nil
}

// sleepUntil returns at t, or at once after close.
func (s *sleeper) sleepUntil(t time.Time) {
	left := time.Until(t)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	}
}

// close ends a sleep in progress. It may be called from another goroutine.
func (s *sleeper) close() { close(s.done) }

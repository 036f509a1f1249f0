package profiler

import "time"

// base is the process's one clock origin. time.Since on it reads only the monotonic clock: half the price of time.Now.
var base = time.Now()

// Instant is a point in time as nanoseconds since an origin private to the process, read from the monotonic clock. The zero
// Instant means "not known". Instrumentation keeps Instants, because they are cheap to read and to subtract; events and reports
// carry time.Time and time.Duration.
type Instant int64

// Now reads the monotonic clock. It never returns the zero Instant.
func Now() Instant { return Instant(time.Since(base)) | 1 }

// Known reports whether i was ever set.
func (i Instant) Known() bool { return i != 0 }

// Sub is the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add is the Instant d after i.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// InstantOf converts a time that carries a monotonic reading, such as one from time.Now. A zero time gives the zero Instant.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.Sub(base)) | 1
}

// anchor ties one Instant to the wall clock. Everything that one connection reports is placed on the wall clock through one anchor,
// so that a step of the wall clock moves the connection as a whole and never stretches a phase.
type anchor struct {
	at   Instant
	wall time.Time // with its monotonic reading
}

func newAnchor(at Instant) anchor {
	now := time.Now()
	return anchor{at: at, wall: now.Add(at.Sub(InstantOf(now)))}
}

// time places i on the wall clock; the zero Instant gives the zero time.
func (a anchor) time(i Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return a.wall.Add(i.Sub(a.at))
}

package profiler

import "time"

// base is the process's one clock origin. time.Since on it reads only the monotonic clock: half the price of time.Now.
var base = time.Now()

// Instant is a point in time as nanoseconds since an origin private to the process, read from the monotonic clock. The zero
// Instant means "not known". An Instant may be negative (in a testing/synctest bubble, whose clock starts in 2000), so that only Known
// tells. Instrumentation keeps Instants, because they are cheap to read and to subtract; events and reports
// carry time.Time and time.Duration.
type Instant int64

// Now reads the monotonic clock. It never returns the zero Instant.
func Now() Instant { return Instant(time.Since(base)) | 1 }

// Known reports whether i was ever set.
func (i Instant) Known() bool { return i != 0 }

// Sub is the time from j to i. It means nothing if one of them is not known.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Add is the Instant d after i, not known if i is not.
func (i Instant) Add(d time.Duration) Instant {
	if i == 0 {
		return 0
	}
	return i + Instant(d)
}

// InstantOf converts a time that carries a monotonic reading, such as one from time.Now. A zero time gives the zero Instant.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.Sub(base)) | 1
}

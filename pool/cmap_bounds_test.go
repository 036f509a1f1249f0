package pool_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/internal/timing"
	"github.com/connprof/connprof/profiler"
)

// A create's total is the driver's own: ConnectionReady's Duration.
func TestTimingOfAMongoCreatesTotal(t *testing.T) {
	timing.Only(t)
	const creates = 60
	drivers(t, func(t *testing.T, d driver) {
		s := mongotest.Start(t, mongotest.Options{Users: map[string]string{"u": "p"}})
		var mu sync.Mutex
		var theirs []time.Duration
		var tl creations
		p := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}
		c := d.connect(t, p, s.UserURI("u", "p", "maxPoolSize=1&maxIdleTimeMS=1"), user{ready: func(d time.Duration) {
			mu.Lock()
			theirs = append(theirs, d)
			mu.Unlock()
		}})
		for range creates {
			if err := c.find(testContext(t), 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // until it is idle for too long: the driver's clock
		}
		c.close()
		mu.Lock()
		defer mu.Unlock()
		ours := tl.ready()
		if len(ours) != len(theirs) || len(ours) < creates {
			t.Fatalf("%d creates, the driver made %d", len(ours), len(theirs))
		}
		off := make([]time.Duration, len(ours))
		for i := range ours { // one at a time, so in the same order
			off[i] = (ours[i] - theirs[i]).Abs()
		}
		slices.Sort(off)
		t.Logf("off by %v at the median, %v at most, of %d", off[len(off)/2], off[len(off)-1], len(off))
		if off[len(off)/2] > 50*time.Microsecond {
			t.Errorf("off by %v at the median", off[len(off)/2])
		}
	})
}

package pool_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// A pool of one connection, which a find holds: others wait, one of them for too long, one gives up.
func TestMongoCallersWhoWaitAreCounted(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		release := make(chan struct{})
		s := mongotest.Start(t, mongotest.Options{Script: func(c mongotest.Call) mongotest.Step {
			if c.Command == "find" {
				<-release
			}
			return mongotest.Step{}
		}})
		p := new(profiler.Profiler)
		c := d.connect(t, p, s.URI("maxPoolSize=1"), user{})
		pool := func() profiler.PoolReport { return p.Report().Pools[0] }
		until := func(pending int) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Second); pool().Pending != pending; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d wait, want %d", pool().Pending, pending)
				}
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.find(testContext(t), 1) })
		s.WaitFor(t, func(logs []mongotest.ConnLog) bool {
			n := 0
			for _, l := range logs {
				n += l.Count("find")
			}
			return n == 1
		})
		until(0)
		ctx, cancel := context.WithCancel(testContext(t))
		wg.Go(func() { _ = c.find(ctx, 1) })
		wg.Go(func() { _ = c.find(testContext(t), 1) })
		until(2)
		late, cancelLate := context.WithTimeout(testContext(t), 20*time.Millisecond)
		defer cancelLate()
		if err := c.find(late, 1); err == nil {
			t.Error("a connection that was not there")
		}
		cancel()
		until(1)
		close(release)
		wg.Wait()
		until(0)
		if w := pool(); !w.PendingKnown || !w.TimeoutsKnown || w.Timeouts != 1 {
			t.Errorf("%+v, want one timeout", w.PoolStats)
		}
		c.close()
		if w := pool(); w.Timeouts != 1 || w.Pending != 0 {
			t.Errorf("at the end %+v", w.PoolStats)
		}
	})
}

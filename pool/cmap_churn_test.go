package pool_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// Connections that came and went, some of them killed, leave nothing: no goroutine, nothing in the profiler, and the heap as it was.
func TestMongoChurnLeavesNothing(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		p := &profiler.Profiler{}
		address := ""
		play := func(t *testing.T, n int64) { // a server's own log grows, so each time another one, at the same address
			s := mongotest.Start(t, mongotest.Options{Address: address})
			address = s.Addr()
			made := func() (n int64) {
				if e := p.Report().Endpoint(address, profiler.RolePool); e != nil {
					n = e.Created + e.Failed
				}
				return n
			}
			c := d.connect(t, p, s.URI("maxConnecting=10&maxIdleTimeMS=5"), user{})
			ctx := testContext(t)
			until := made() + n
			for round := 1; made() < until && ctx.Err() == nil; round++ {
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() { _ = c.find(ctx, 1) }) // some fail: their connection is cut
				}
				all.Wait()
				if round%20 == 0 {
					s.KillPool()
				}
				time.Sleep(6 * time.Millisecond) // until all are idle for too long: the driver's clock
			}
			c.close()
			gone(t, p)
			p.Flush()
		}
		heap := func() int64 {
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		many := int64(churned())
		// What a subtest cleans up is gone when it is over.
		t.Run("some", func(t *testing.T) { play(t, many/4) })
		before := heap()
		t.Run("many", func(t *testing.T) { play(t, many) })
		grown := heap() - before
		t.Logf("%d connections came and went, the heap grew by %d bytes", many, grown)
		if grown > 256<<10 {
			t.Errorf("the heap grew by %d bytes over %d connections", grown, many)
		}
		if n := len(p.Conns()); n != 0 {
			t.Errorf("%d connections are listed", n)
		}
	})
}

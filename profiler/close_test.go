package profiler

import (
	"context"
	"sync"
	"testing"
)

// A pool that interrupts its users closes a connection while an operation runs on it. The race detector is what looks.
func TestACloseWhileAnOperationRunsIsNoRace(t *testing.T) {
	for range 100 {
		var closes collector
		p := &Profiler{Sinks: []Sink{&closes}}
		c := p.NewConn(Endpoint{}, RolePool)
		c.Ready(NoCaller)
		var both sync.WaitGroup
		both.Go(func() {
			o := c.Begin(t.Context(), OpCommand, Now())
			o.End(t.Context(), Now(), nil)
		})
		both.Go(func() { c.Closed(CloseError, nil) })
		both.Wait()
		p.Flush()
		if n := closes.count(KindClose); n != 1 || c.Ops() != 1 {
			t.Fatalf("%d closes, %d operations", n, c.Ops())
		}
	}
}

// collector counts events by kind.
type collector struct {
	mu sync.Mutex
	n  map[Kind]int
}

func (c *collector) Record(_ context.Context, e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[Kind]int)
	}
	c.n[e.Kind]++
}

func (c *collector) count(k Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[k]
}

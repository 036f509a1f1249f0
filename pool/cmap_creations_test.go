package pool_test

import (
	"context"
	"sync"
	"time"

	"github.com/connprof/connprof/profiler"
)

// creations is a Sink that keeps the totals of a pool's creates that ended well.
type creations struct {
	mu     sync.Mutex
	totals []time.Duration // mu
}

func (c *creations) Record(_ context.Context, e profiler.Event) {
	if e.Kind != profiler.KindCreate || e.Conn.Role() != profiler.RolePool || e.Conn.Create().Err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals = append(c.totals, e.Conn.Create().Duration)
}

func (c *creations) ready() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.totals
}

package pgxprof

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// owner is one pool. A program may make several with one configuration or with copies of it, at once or one after the other: each has its
// own end, its own callers, and in a copy its own limits.
type owner struct {
	pool           *pgxpool.Pool
	life, idleTime time.Duration
	closed         atomic.Pointer[<-chan struct{}] // is closed when the pool is; nil until it is known
	madeFor        atomic.Int64                    // callers for whom a connection was made
	madeWait       atomic.Int64                    // nanoseconds that these waited
	callers        callers
}

// over reports whether the pool is known to be closed.
func (o *owner) over() bool {
	done := o.closed.Load()
	return done != nil && ended(*done)
}

// owners are the pools of one configuration, the newest last.
type owners struct {
	last atomic.Pointer[owner] // the one that was asked for last
	mu   sync.Mutex
	all  []*owner // mu
	seen int      // mu: those that are forgotten included
}

// maxOwners bounds them. Pools that are closed are forgotten, and beyond it the oldest.
const maxOwners = 64

// of is that of pool.
func (os *owners) of(pool *pgxpool.Pool) *owner {
	if o := os.last.Load(); o != nil && o.pool == pool {
		return o
	}
	if pool == nil {
		return nil
	}
	os.mu.Lock()
	defer os.mu.Unlock()
	i := slices.IndexFunc(os.all, func(o *owner) bool { return o.pool == pool })
	if i < 0 {
		cfg := pool.Config()
		os.all = slices.DeleteFunc(os.all, (*owner).over)
		if len(os.all) >= maxOwners {
			os.all = slices.Delete(os.all, 0, 1)
		}
		os.all = append(os.all, &owner{pool: pool, life: cfg.MaxConnLifetime, idleTime: cfg.MaxConnIdleTime})
		os.seen++
		i = len(os.all) - 1
	}
	os.last.Store(os.all[i])
	return os.all[i]
}

// only is the one pool that was seen, nil if there is none or were several: whose is what a pool makes in the background, nothing tells.
func (os *owners) only() *owner {
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.seen != 1 {
		return nil
	}
	return os.all[0]
}

// ownedBy notes whose m's connection is, once that is known.
func (m *member) ownedBy(o *owner) {
	if m.owner == nil {
		m.owner = o
	}
}

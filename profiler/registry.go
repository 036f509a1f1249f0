package profiler

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Conns returns the live connections, those being made included, in the order of their IDs: at most Profiler.MaxConns.
func (p *Profiler) Conns() []*Conn {
	if p == nil {
		return nil
	}
	cs := p.live.all()
	slices.SortFunc(cs, func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
	return cs
}

// registry knows the live connections, up to a bound.
type registry struct {
	mu      sync.Mutex
	conns   []*Conn      // mu; in no order, each knows its place
	dropped atomic.Int64 // connections that did not fit
}

func (r *registry) all() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.conns)
}

func (r *registry) add(c *Conn, max int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) >= max {
		r.dropped.Add(1)
		return
	}
	r.conns = append(r.conns, c)
	c.listed = uint32(len(r.conns))
}

func (r *registry) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.listed == 0 {
		return
	}
	end := len(r.conns) - 1
	last := r.conns[end]
	r.conns[c.listed-1], last.listed = last, c.listed
	r.conns[end] = nil
	r.conns, c.listed = r.conns[:end], 0
}

// failures keeps the last creates that failed, so that a report can say what happened.
type failures struct {
	mu   sync.Mutex
	last []*Conn // mu; at most maxFailures, the oldest first
}

const maxFailures = 32

func (f *failures) add(c *Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.last) == maxFailures {
		copy(f.last, f.last[1:])
		f.last = f.last[:maxFailures-1]
	}
	f.last = append(f.last, c)
}

func (f *failures) all() []*Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*Conn(nil), f.last...)
}

package profiler

import (
	"context"
	"sync"
	"sync/atomic"
)

// Profiler collects what instrumented clients do. The zero value is ready; its fields must not change once it is in use. A nil *Profiler
// is a way to say "don't": the adoption functions then wrap nothing. It starts no goroutine and needs no closing. Its methods may be
// called concurrently.
type Profiler struct {
	// Sinks receive every event, in this order.
	Sinks []Sink
	// MaxEndpoints bounds the endpoints that are told apart; 0 means 300. Further ones share one entry a system, and are counted.
	MaxEndpoints int
	// MaxConns bounds the live connections that a Report can list; 0 means 10,000. Further ones are measured all the same, and counted.
	MaxConns int

	off      atomic.Bool
	ids      atomic.Uint64
	panics   atomic.Int64
	targets  targets
	live     registry
	failures failures
	pools    pools

	mu      sync.Mutex
	closes  []deferred   // mu
	pending atomic.Int32 // len(closes)
	lost    atomic.Int64 // closes that no longer fitted
}

// Disable switches recording off: new connections are not watched, and operations on old ones are not recorded.
func (p *Profiler) Disable() { p.off.Store(true) }

// Enable switches recording back on. Connections made while it was off stay unwatched.
func (p *Profiler) Enable() { p.off.Store(false) }

// Enabled reports whether p records; false for a nil Profiler.
func (p *Profiler) Enabled() bool { return p != nil && !p.off.Load() }

func (p *Profiler) maxEndpoints() int {
	if p.MaxEndpoints > 0 {
		return p.MaxEndpoints
	}
	return 300
}

func (p *Profiler) maxConns() int {
	if p.MaxConns > 0 {
		return p.MaxConns
	}
	return 10_000
}

// wants reports whether anyone listens to an event of an operation with mark m.
func (p *Profiler) wants(m *mark) bool { return len(p.Sinks) > 0 || m != nil && m.sink != nil }

func (p *Profiler) emit(ctx context.Context, m *mark, e Event) {
	if !p.wants(m) {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if p.pending.Load() > 0 {
		p.Flush()
	}
	for _, s := range p.Sinks {
		p.call(s, ctx, e)
	}
	if m != nil && m.sink != nil {
		p.call(m.sink, ctx, e)
	}
}

// call keeps a panicking Sink from the host.
func (p *Profiler) call(s Sink, ctx context.Context, e Event) {
	defer func() {
		if recover() != nil {
			p.panics.Add(1)
		}
	}()
	s.Record(ctx, e)
}

type deferred struct {
	ctx context.Context
	e   Event
}

// maxPendingCloses bounds the closes that wait for a call that may report them.
const maxPendingCloses = 4096

// deferClose keeps a close until the next event outside a pool's locks, or Flush.
func (p *Profiler) deferClose(ctx context.Context, e Event) {
	if len(p.Sinks) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.closes) >= maxPendingCloses {
		p.lost.Add(1)
		return
	}
	p.closes = append(p.closes, deferred{ctx, e})
	p.pending.Store(int32(len(p.closes)))
}

// Flush reports the closes that are still to be reported. Call it after the pools were closed, before the sinks are.
func (p *Profiler) Flush() {
	if p == nil {
		return
	}
	p.mu.Lock()
	closes := p.closes
	p.closes = nil
	p.pending.Store(0)
	p.mu.Unlock()
	for _, d := range closes {
		for _, s := range p.Sinks {
			p.call(s, d.ctx, d.e)
		}
	}
}

// registry knows the live connections, up to a bound.
type registry struct {
	mu      sync.Mutex
	conns   map[*Conn]struct{} // mu
	dropped atomic.Int64
}

func (r *registry) add(c *Conn, max int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) >= max {
		r.dropped.Add(1)
		return
	}
	if r.conns == nil {
		r.conns = make(map[*Conn]struct{})
	}
	r.conns[c] = struct{}{}
}

func (r *registry) remove(c *Conn) {
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

func (r *registry) all() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := make([]*Conn, 0, len(r.conns))
	for c := range r.conns {
		s = append(s, c)
	}
	return s
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

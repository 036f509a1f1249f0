package profiler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
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
	// HeldIdleAfter is how long a connection may be in a caller's hands with nothing happening on it before reports count it as held idle; 0
	// means 30 s.
	HeldIdleAfter time.Duration
	// Holders asks for the place in the program where each connection is taken, so that reports say who holds those on which nothing happens
	// (EndpointReport.Holders). It costs about a microsecond a checkout, and 0.4 KB a connection.
	Holders bool
	// Statements asks for what a driver tells only at a price: MongoDB's copies each command for it. Operation.Collection is then known of
	// every command, and not only of those whose reply names it, and a repeated write is one operation. A program's own
	// CommandMonitor.Started pays the price anyway.
	Statements bool

	off      atomic.Bool
	whole    atomic.Bool // MeasureOperation is asked for
	ids      atomic.Uint64
	panics   atomic.Int64
	targets  targets
	live     registry
	failures failures
	pools    pools

	creates atomic.Pointer[[]*observer] // written under mu

	mu      sync.Mutex
	closes  []Event      // mu
	pending atomic.Int32 // len(closes)
	lost    atomic.Int64 // closes that no longer fitted
	untied  atomic.Int64 // operations without a connection
}

// Disable switches recording off: new connections are not watched, and operations on old ones are only counted, so that none of them
// is taken for the first on its connection later. Creates and operations that have begun are still recorded, and so are closes.
// A nil Profiler stays off.
func (p *Profiler) Disable() {
	if p != nil {
		p.off.Store(true)
	}
}

// Enable switches recording back on. Connections made while it was off stay unwatched.
func (p *Profiler) Enable() {
	if p != nil {
		p.off.Store(false)
	}
}

// CollectOperations asks for MeasureOperation, and for EndpointReport.Waiting, from now on and for good. Each operation then pays for one more histogram record, some 15 ns.
func (p *Profiler) CollectOperations() {
	if p != nil {
		p.whole.Store(true)
	}
}

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

func (p *Profiler) heldIdleAfter() time.Duration {
	if p.HeldIdleAfter > 0 {
		return p.HeldIdleAfter
	}
	return 30 * time.Second
}

// wants reports whether anyone listens to an event of an operation with mark m.
func (p *Profiler) wants(m *mark) bool { return len(p.Sinks) > 0 || m != nil && m.sink != nil }

func (p *Profiler) emit(ctx context.Context, m *mark, e *Event) {
	if !p.wants(m) {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if p.pending.Load() > 0 {
		p.flushCloses()
	}
	for _, s := range p.Sinks {
		p.call(s, ctx, e)
	}
	if m != nil && m.sink != nil {
		p.call(m.sink, ctx, e)
	}
}

// wanting is the first of Sinks[from:] that wants to be told of an operation, len(Sinks) if none does. A Decliner that panics does not want,
// and is kept from the host.
func (p *Profiler) wanting(from int, ctx context.Context, k Kind, c *Conn, n uint64) (i int) {
	defer func() {
		if recover() != nil {
			p.panics.Add(1)
			i = p.wanting(i+1, ctx, k, c, n)
		}
	}()
	for i = from; i < len(p.Sinks); i++ {
		if d, ok := p.Sinks[i].(Decliner); !ok || d.Wants(ctx, k, c, n) {
			break
		}
	}
	return i
}

// call keeps a panicking Sink from the host.
func (p *Profiler) call(s Sink, ctx context.Context, e *Event) {
	if b, ok := s.(both); ok {
		p.call(b[0], ctx, e)
		p.call(b[1], ctx, e)
		return
	}
	defer func() {
		if recover() != nil {
			p.panics.Add(1)
		}
	}()
	s.Record(ctx, *e)
}

// maxPendingCloses bounds the closes that wait for a call that may report them.
const maxPendingCloses = 4096

// deferClose keeps a close until the next event outside a pool's locks, or Flush.
func (p *Profiler) deferClose(e Event) {
	if len(p.Sinks) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.closes) >= maxPendingCloses {
		p.lost.Add(1)
		return
	}
	p.closes = append(p.closes, e)
	p.pending.Store(int32(len(p.closes)))
}

// Flush reports the closes that are still to be reported. It asks the watched pools for their counters, which may tell why. Call it after
// the pools were closed, before the sinks are, and not from inside a pool's callback.
func (p *Profiler) Flush() {
	if p == nil {
		return
	}
	p.pools.report()
	p.flushCloses()
}

func (p *Profiler) flushCloses() {
	p.mu.Lock()
	closes := p.closes
	p.closes = nil
	p.pending.Store(0)
	p.mu.Unlock()
	for i := range closes {
		for _, s := range p.Sinks {
			p.call(s, context.Background(), &closes[i])
		}
	}
}

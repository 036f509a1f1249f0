package profiler

import (
	"context"
	"sync"
	"sync/atomic"
)

// AsyncSink hands events to a slow Sink on a goroutine of its own, through a bounded queue. What does not fit is dropped and counted:
// the host is never held up.
type AsyncSink struct {
	sink    Sink
	queue   chan deferred
	dropped atomic.Int64
	panics  atomic.Int64
	mu      sync.RWMutex
	stopped bool // mu
}

// Async starts a goroutine that hands events to s, through a queue of n (at least 1). The returned stop delivers what is queued, ends the
// goroutine and waits for it, however long s takes; what is recorded later is dropped. stop may be called more than once, but not from s.
// Contexts are passed on for their values, without their cancellation. It panics if s is nil.
func Async(s Sink, n int) (a *AsyncSink, stop func()) {
	if s == nil {
		panic("profiler: Async: nil Sink")
	}
	a = &AsyncSink{sink: s, queue: make(chan deferred, max(n, 1))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for d := range a.queue {
			a.deliver(d)
		}
	}()
	return a, sync.OnceFunc(func() {
		a.mu.Lock()
		a.stopped = true
		close(a.queue)
		a.mu.Unlock()
		<-done
	})
}

// deferred is an event that waits for its Sink.
type deferred struct {
	ctx context.Context
	e   Event
}

func (a *AsyncSink) deliver(d deferred) {
	defer func() {
		if recover() != nil {
			a.panics.Add(1)
		}
	}()
	a.sink.Record(d.ctx, d.e)
}

// Record queues the event, or drops it.
func (a *AsyncSink) Record(ctx context.Context, e Event) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.stopped {
		a.dropped.Add(1)
		return
	}
	select {
	case a.queue <- deferred{context.WithoutCancel(ctx), e}:
	default:
		a.dropped.Add(1)
	}
}

// Dropped counts the events that did not fit or came too late.
func (a *AsyncSink) Dropped() int64 { return a.dropped.Load() }

// Panics counts the panics of the Sink behind.
func (a *AsyncSink) Panics() int64 { return a.panics.Load() }

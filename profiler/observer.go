package profiler

import (
	"context"
	"slices"
	"sync"
)

// An observer is a Sink that was added while the Profiler was in use.
type observer struct{ sink Sink }

// ObserveCreates has s receive each KindCreate from now on until stop is called: for a Sink that comes later than the first use, when
// Profiler.Sinks must not change any more. Nothing else is reported to it, so that operations cost what they cost without. stop may be called
// more than once; a create that is being reported meanwhile may still come after it has returned. A nil Profiler has no creates. It panics if s
// is nil.
func (p *Profiler) ObserveCreates(s Sink) (stop func()) {
	if p == nil {
		return func() {}
	}
	if s == nil {
		panic("profiler: ObserveCreates: nil Sink")
	}
	o := &observer{s}
	p.changeObservers(func(os []*observer) []*observer { return append(os, o) })
	return sync.OnceFunc(func() {
		p.changeObservers(func(os []*observer) []*observer {
			return slices.DeleteFunc(os, func(other *observer) bool { return other == o })
		})
	})
}

// CreateObservers are the Sinks that ObserveCreates was called with and that were not stopped, in that order.
func (p *Profiler) CreateObservers() (ss []Sink) {
	if p == nil {
		return nil
	}
	if os := p.creates.Load(); os != nil {
		for _, o := range *os {
			ss = append(ss, o.sink)
		}
	}
	return ss
}

func (p *Profiler) changeObservers(change func([]*observer) []*observer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var os []*observer
	if now := p.creates.Load(); now != nil {
		os = slices.Clone(*now)
	}
	os = change(os)
	p.creates.Store(&os)
}

func (p *Profiler) observeCreate(ctx context.Context, e *Event) {
	os := p.creates.Load()
	if os == nil {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	for _, o := range *os {
		p.call(o.sink, ctx, e)
	}
}

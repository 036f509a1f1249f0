package profiler

import (
	"context"
	"sync"
)

// Timeline is a Sink for one request: it collects what happened and prints it as a waterfall. The zero value is ready:
//
//	var tl profiler.Timeline
//	rows, err := db.QueryContext(profiler.WithSink(ctx, &tl), "SELECT ...")
//	...
//	tl.WriteTo(os.Stderr)
//
// A query appears once its rows are closed. It keeps at most MaxTimeline events and counts the rest. Its methods may be called concurrently.
type Timeline struct {
	mu      sync.Mutex
	events  []Event // mu: creates, ended operations, and waits that ended without a connection
	dropped int     // mu
}

// MaxTimeline bounds a Timeline.
const MaxTimeline = 256

// Record collects creates, operations and waits in vain.
func (t *Timeline) Record(_ context.Context, e Event) {
	if e.Kind != KindCreate && e.Kind != KindOperation && e.Kind != KindWaitFailed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= MaxTimeline {
		t.dropped++
		return
	}
	t.events = append(t.events, e)
}

// Events returns what was collected, in the order in which it was reported.
func (t *Timeline) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Event(nil), t.events...)
}

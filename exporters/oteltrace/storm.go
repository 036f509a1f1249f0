package oteltrace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/connprof/connprof/profiler"
)

// defaultConnectionTraces is what MaxConnectionTraces' zero means.
const defaultConnectionTraces = 100

// storm counts the connection traces of the running second.
type storm struct {
	dropped atomic.Int64

	mu    sync.Mutex
	since profiler.Instant // mu: when the second began
	n     int              // mu
}

// admit takes one of the second's traces, if one is left, and counts a refusal.
func (st *storm) admit(now profiler.Instant, limit int) bool {
	if limit < 0 {
		return true
	}
	if limit == 0 {
		limit = defaultConnectionTraces
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.since.Known() || now.Sub(st.since) >= time.Second {
		st.since, st.n = now, 0
	}
	if st.n >= limit {
		st.dropped.Add(1)
		return false
	}
	st.n++
	return true
}

// giveBack returns a trace that the sampler then declined: only traces that are recorded count.
func (st *storm) giveBack() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.n = max(0, st.n-1)
}

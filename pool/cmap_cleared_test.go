package pool

import (
	"fmt"
	"io"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// A clear counts once the pool is used again or somebody asks it in vain: the one that a client's own end causes is no failure.
func TestCMAPCountsClears(t *testing.T) {
	clear := func(s *script, err error) { s.m.Pool(&PoolEvent{Type: poolCleared, Address: here, Err: err}) }
	lost := fmt.Errorf("connection lost: %w", io.ErrUnexpectedEOF)
	for name, tt := range map[string]struct {
		play    func(s *script)
		cleared int64
		why     string
	}{
		"and ready again":          {func(s *script) { clear(s, lost); s.pool(poolReady, 0) }, 1, "closed"},
		"ready for the first time": {func(s *script) { s.pool(poolReady, 0) }, 0, ""},
		"and asked in vain":        {func(s *script) { clear(s, lost); s.pool(checkOutStarted, 0); s.pool(checkOutFailed, 0) }, 1, "closed"},
		"twice": {func(s *script) {
			clear(s, lost)
			s.pool(poolReady, 0)
			clear(s, nil)
			s.pool(poolReady, 0)
			s.pool(poolReady, 0)
		}, 2, ""},
		"as the client is closed": {func(s *script) { clear(s, lost); s.pool(poolClosed, 0) }, 0, ""},
		"behind a load balancer":  {func(s *script) { s.m.Pinning = true; clear(s, lost) }, 1, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.pool(poolCreated, 0)
			tt.play(s)
			r := s.p.Report()
			if w := r.Pools[0]; w.Cleared != tt.cleared || w.ClearedFor != tt.why {
				t.Errorf("cleared %d times for %q, want %d for %q", w.Cleared, w.ClearedFor, tt.cleared, tt.why)
			}
			found := false
			for _, f := range r.Findings {
				found = found || f.ID == "pool_cleared"
			}
			if found != (tt.cleared > 0) {
				t.Errorf("findings %+v", r.Findings)
			}
		})
	}
}

// The connections that go because of it have its cause.
func TestCMAPTellsWhyAConnectionIsStale(t *testing.T) {
	s := newScript(t)
	s.pool(poolCreated, 0)
	s.create(1)
	s.create(2)
	s.m.Pool(&PoolEvent{Type: poolCleared, Address: here, Err: io.EOF})
	s.close(1, "stale", nil)
	s.close(2, "idle", nil)
	s.p.Flush()
	why := map[profiler.CloseReason]error{}
	for _, e := range s.events {
		if e.Kind == profiler.KindClose {
			why[e.Close.Reason] = e.Close.Err
		}
	}
	if len(why) != 2 || why[profiler.CloseStale] != io.EOF || why[profiler.CloseIdleTime] != nil {
		t.Errorf("closes %v", why)
	}
}

package handshake

import (
	"time"

	"github.com/connprof/connprof/profiler"
)

// turns are the request/response exchanges of a create. A turn begins with a write and ends with the last read before the next write.
// They can be counted under TLS, because only directions and times matter.
type turns struct {
	all []turn
}

type turn struct {
	begin profiler.Instant // entry of its first write
	sent  profiler.Instant // return of its last write
	read  profiler.Instant // return of its last read, zero before the first
	asked bool             // somebody called Read for an answer to it
}

// maxTurns bounds the turns kept; later ones are counted into the last.
const maxTurns = 64

func (t *turns) wrote(entry, ret profiler.Instant) {
	if n := len(t.all); n > 0 && (t.all[n-1].read == 0 || n == maxTurns) {
		t.all[n-1].sent = ret
		return
	}
	t.all = append(t.all, turn{begin: entry, sent: ret})
}

// reading says that a Read begins or is under way.
func (t *turns) reading() {
	if n := len(t.all); n > 0 {
		t.all[n-1].asked = true
	}
}

// dropFarewell forgets a last write that nobody waited for an answer to: MySQL's COM_QUIT after a failure is no exchange.
func (t *turns) dropFarewell() {
	if n := len(t.all); n > 1 && t.all[n-1].read == 0 && !t.all[n-1].asked {
		t.all = t.all[:n-1]
	}
}

func (t *turns) read(ret profiler.Instant) {
	if n := len(t.all); n > 0 {
		t.all[n-1].read = max(ret, t.all[n-1].sent)
	}
}

func (t *turns) last() turn { return t.all[len(t.all)-1] }

// answered reports whether every request has an answer.
func (t *turns) answered() bool {
	n := len(t.all)
	return n > 0 && t.all[n-1].read != 0
}

// waiting is the time that the turns from i up to j spent waiting for the other side, up to end for one without an answer.
func (t *turns) waiting(i, j int, end profiler.Instant) time.Duration {
	var d time.Duration
	for _, u := range t.all[i:j] {
		r := u.read
		if r == 0 {
			r = end
		}
		d += max(0, r.Sub(u.sent))
	}
	return d
}

// answeredBy is when turn i was answered; end for one without an answer.
func (t *turns) answeredBy(i int, end profiler.Instant) profiler.Instant {
	if r := t.all[i].read; r != 0 {
		return r
	}
	return end
}

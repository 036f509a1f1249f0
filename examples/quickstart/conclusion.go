package main

import (
	"fmt"
	"time"

	"github.com/connprof/connprof/exporters/term"
	"github.com/connprof/connprof/profiler"
)

// pair is one database without and with TLS; one of them may be missing.
type pair struct{ off, on *result }

// conclusions are three sentences, computed from the numbers: what the first query pays, what a reused one pays, and what pooling makes
// of it. Where something was not measured they are fewer.
func conclusions(p pair) []string {
	var sentences []string
	add := func(s string) {
		if s != "" {
			sentences = append(sentences, s)
		}
	}
	switch {
	case p.off != nil && p.on != nil:
		add(firstQuery(*p.off, *p.on))
		add(reusedQuery(*p.off, *p.on))
		add(spread(*p.on))
	case p.on != nil:
		add(firstQueryAlone(*p.on))
		add(reusedAlone(*p.on))
		add(spread(*p.on))
	case p.off != nil:
		add(firstQueryAlone(*p.off))
		add(reusedAlone(*p.off))
		add(spreadPlain(*p.off))
	}
	return sentences
}

func firstQuery(off, on result) string {
	took := fmt.Sprintf("%s instead of %s (×%.1f)", profiler.Millis(on.total.mean), profiler.Millis(off.total.mean), ratio(on.total, off.total))
	if twice := twoHandshakes(on); twice != "" {
		return fmt.Sprintf("A cold client pays TLS twice: its first answer takes %s, and it waited for two handshakes, %s.", took, twice)
	}
	s := fmt.Sprintf("With TLS a cold client's first answer takes %s", took)
	if tls := on.pool.phase(profiler.TLS); tls > 0 {
		s += fmt.Sprintf(": TLS adds %s, and %s is what the handshake takes",
			profiler.Millis(on.total.mean-off.total.mean), profiler.Millis(tls))
	}
	return s + "."
}

// twoHandshakes tells MongoDB's two apart; "" where there was only one.
func twoHandshakes(r result) string {
	pool, monitor := r.pool.phase(profiler.TLS), r.monitor.phase(profiler.TLS)
	if pool == 0 || monitor == 0 {
		return ""
	}
	return fmt.Sprintf("%s on the heartbeat connection, inside server selection, and %s on the pool's", profiler.Millis(monitor), profiler.Millis(pool))
}

func reusedQuery(off, on result) string {
	if off.reused.n == 0 || on.reused.n == 0 {
		return ""
	}
	s := fmt.Sprintf("A query on a reused connection takes %s without TLS and %s with it, ",
		profiler.Millis(off.reused.mean), profiler.Millis(on.reused.mean))
	if more := on.reused.mean - off.reused.mean; more > 0 && differ(off.reused, on.reused) {
		return s + fmt.Sprintf("%s or %s more, where connecting with TLS costs %s more, once.", profiler.Millis(more),
			term.Percent(float64(more)/float64(off.reused.mean)), profiler.Millis(on.total.mean-off.total.mean))
	}
	return s + fmt.Sprintf("no more as far as %d queries can tell: TLS is paid by the connection, not by the query.", on.reused.n)
}

// spread is the amortisation table in a sentence.
func spread(r result) string {
	a := r.amortised
	if a == nil || a.TLS == 0 {
		return ""
	}
	return fmt.Sprintf("If 10 queries share a connection, TLS is %s of the time of each, with 100 it is %s, with 1,000 it is %s.",
		term.Percent(a.TLSShare(10)), term.Percent(a.TLSShare(100)), term.Percent(a.TLSShare(1000)))
}

func spreadPlain(r result) string {
	a := r.amortised
	if a == nil {
		return ""
	}
	return fmt.Sprintf("A query on a connection of its own costs %s; if 100 share one, each costs %s.",
		profiler.Millis(a.Cost(1)), profiler.Millis(a.Cost(100)))
}

func firstQueryAlone(r result) string {
	if twice := twoHandshakes(r); twice != "" {
		return fmt.Sprintf("A cold client pays TLS twice: of the %s to its first answer it waited for two handshakes, %s.",
			profiler.Millis(r.total.mean), twice)
	}
	s := fmt.Sprintf("A cold client's first answer takes %s", profiler.Millis(r.total.mean))
	var longest part
	for _, p := range r.pool.parts {
		if p.sum > longest.sum {
			longest = p
		}
	}
	if longest.sum > 0 {
		s += fmt.Sprintf("; the longest phase of connecting is %s, %s", longest.phase, profiler.Millis(r.pool.mean(longest.sum)))
	}
	return s + "."
}

func reusedAlone(r result) string {
	if r.reused.n == 0 || r.reused.mean == 0 {
		return ""
	}
	return fmt.Sprintf("A query on a reused connection takes %s: the first one costs as much as %.1f of them.",
		profiler.Millis(r.reused.mean), ratio(r.total, r.reused))
}

func ratio(a, b summary) float64 { return float64(a.mean) / float64(max(b.mean, time.Nanosecond)) }

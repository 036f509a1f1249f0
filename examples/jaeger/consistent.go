package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/connprof/connprof/profiler"
)

// oteltraceScope is the instrumentation scope of connprof's spans.
const oteltraceScope = "github.com/connprof/connprof/exporters/oteltrace"

const (
	setupPrefix   = "connection_setup "
	waitName      = "wait_for_connection"
	selectionName = "server_selection"
	phasePrefix   = "connprof.phase."
)

// rounding is what a duration in seconds may differ by from the same one in nanoseconds.
const rounding = time.Microsecond

// clockNoise is what two times on the wall clock may be off by whose distance the monotonic clock would tell otherwise. Each connection has
// an anchor of its own, so has the request's span, and oteltrace corrects from 1 ms on.
const clockNoise = time.Millisecond

// consistent holds the spans of a trace against each other, and against those of the traces before: what any trace must be, whatever
// happened in it. No time but theirs is needed for that, so no machine is too busy for it.
func (c *checker) consistent(root *span) {
	root.walk(func(s *span, depth int) {
		if s.service != serviceName {
			c.fail("%s: service %q, want %q", s.name, s.service, serviceName)
		}
		if own := s.kind == "SERVER"; own != (s.scope == serviceName) || own == (s.scope == oteltraceScope) {
			c.fail("%s: scope %q", s.name, s.scope)
		}
		if s.dropped > 0 {
			c.fail("%s: %d attributes, events or links were dropped", s.name, s.dropped)
		}
		if s.end < s.start {
			c.fail("%s: ends before it starts", s.name)
		}
		noise := int64(0) // the phases of a create have one anchor
		if s.kind == "SERVER" {
			noise = int64(clockNoise)
		}
		for i, child := range s.children {
			if child.start < s.start || child.end > s.end+noise {
				c.fail("%s: not within its parent %s: %d to %d, parent %d to %d", child.name, s.name, child.start, child.end, s.start, s.end)
			}
			if i > 0 && child.start < s.children[i-1].end-noise {
				c.fail("%s: starts %v before %s ended", child.name, time.Duration(s.children[i-1].end-child.start), s.children[i-1].name)
			}
			if isWait(child) {
				c.consistentWait(child, s.children[i+1:])
			}
		}
		switch {
		case strings.HasPrefix(s.name, setupPrefix):
			c.made[link{trace: s.trace, id: s.id}.key()] = &used{setup: s}
			c.consistentSetup(s)
		case s.kind == "CLIENT":
			c.consistentQuery(s)
		}
	})
}

func isWait(s *span) bool { return s.name == waitName || s.name == selectionName }

// consistentWait: a wait for the pool ends where the create that was waited for starts, else no later than the operation does, which says that
// it waited; the choice of a server comes before it.
func (c *checker) consistentWait(wait *span, after []*span) {
	i := slices.IndexFunc(after, func(s *span) bool { return s.kind == "CLIENT" })
	switch {
	case i < 0:
		c.fail("%s: no operation comes after it", wait.name)
		return
	case wait.name == waitName && strings.HasPrefix(after[0].name, setupPrefix) && time.Duration(after[0].start-wait.end).Abs() > clockNoise:
		c.fail("%s: ends %v before %s starts", wait.name, time.Duration(after[0].start-wait.end), after[0].name)
	case wait.name == selectionName && after[0].name == waitName && time.Duration(after[0].start-wait.end).Abs() > clockNoise:
		c.fail("%s: ends %v before the wait for the pool starts", wait.name, time.Duration(after[0].start-wait.end))
	}
	if wait.duration() <= waitThreshold {
		c.fail("%s: has a span, but took %v, not more than %v", wait.name, wait.duration(), waitThreshold)
	}
	key := map[string]string{waitName: "connprof.queued", selectionName: "connprof.query.selection"}[wait.name]
	if waited, ok := after[i].seconds(key); !ok || waited < wait.duration()-rounding {
		c.fail("%s: took %v, %s of %s is %v", wait.name, wait.duration(), key, after[i].name, waited)
	}
}

// consistentSetup: the phases of a create follow each other in the order of profiler.Phase.
func (c *checker) consistentSetup(s *span) {
	last := -1
	for _, phase := range s.children {
		p := slices.IndexFunc(slices.Collect(profiler.Phases), func(p profiler.Phase) bool { return p.String() == phase.name })
		if p <= last {
			c.fail("%s: the phase %s is unknown or out of order", s.name, phase.name)
		}
		last = p
	}
}

// used is a connection and what ran on it, as far as the traces tell.
type used struct {
	setup *span
	index int64 // of its last query
	last  *span // its last query
}

func (l link) key() string { return l.trace + "/" + l.id }

// consistentQuery holds what a query's span says of its connection against the connection's span, and against the query before.
func (c *checker) consistentQuery(q *span) {
	if len(q.links) == 0 {
		return // compare tells
	}
	conn := c.made[link{trace: q.links[0].trace, id: q.links[0].id}.key()]
	if conn == nil {
		c.fail("%s: linked to a span that no trace has", q.name)
		return
	}
	same := func(attr string, want time.Duration) {
		if got, ok := q.seconds(attr); !ok || (got-want).Abs() > rounding {
			c.fail("%s: %s is %v, the span says %v", q.name, attr, got, want)
		}
	}
	if id := conn.setup.attrs["connprof.connection.id"]; q.attrs["connprof.connection.id"] != id {
		c.fail("%s: on connection %v, linked to connection %v", q.name, q.attrs["connprof.connection.id"], id)
	}
	index, _ := q.attrs["connprof.query.index"].(int64)
	if index != conn.index+1 {
		c.fail("%s: query %d on its connection, after query %d", q.name, index, conn.index)
	}
	if reused := q.attrs["connprof.connection.reused"]; reused != (index > 1) {
		c.fail("%s: query %d, reused %v", q.name, index, reused)
	}

	var tls time.Duration
	if phase := conn.setup.child("tls"); phase != nil {
		tls = phase.duration()
	}
	same("connprof.connection.tls.duration", tls)
	paid, _ := q.attrs["connprof.connection.tls.duration"].(float64)
	if share, _ := q.attrs["connprof.tls.amortized"].(float64); math.Abs(share*float64(index)-paid) > 1e-9 {
		c.fail("%s: TLS took %v s, amortized over %d queries %v s", q.name, paid, index, share)
	}
	if first, ok := q.seconds("connprof.query.first_response"); !ok || first > q.duration()+rounding {
		c.fail("%s: first response after %v, the whole took %v", q.name, first, q.duration())
	}
	wait, known := q.seconds("connprof.wait")
	queued, _ := q.seconds("connprof.queued")
	if queued > wait {
		c.fail("%s: queued for %v of a wait of %v", q.name, queued, wait)
	}

	if index == 1 {
		same("connprof.connection.create", conn.setup.duration())
		for _, phase := range conn.setup.children {
			same(phasePrefix+strings.ReplaceAll(phase.name, "+", "_"), phase.duration())
		}
		// Who asked before the create began waited for all of it.
		if known && conn.setup.parent == q.parent && (wait-queued-conn.setup.duration()).Abs() > rounding {
			c.fail("%s: waited %v and queued %v, but its connection took %v", q.name, wait, queued, conn.setup.duration())
		}
	} else if idle, _ := q.seconds("connprof.connection.idle"); conn.last != nil && idle > time.Duration(q.start-conn.last.end)+clockNoise {
		c.fail("%s: idle for %v, but the query before ended %v ago", q.name, idle, time.Duration(q.start-conn.last.end))
	}
	conn.index, conn.last = index, q
}

package profiler

import (
	"sync"
	"sync/atomic"
	"time"
)

// Endpoint is what connections are counted by. It is comparable; keep its values few.
type Endpoint struct {
	// System is OpenTelemetry's db.system.name: "mysql", "mongodb", "postgresql".
	System string `json:"system"`
	// Address is host:port, or the path of a unix socket.
	Address string `json:"address"`
	// Namespace is the database, where the whole pool uses one.
	Namespace string `json:"namespace,omitempty"`
	// Pool names the pool, where a program has several to one address.
	Pool string `json:"pool,omitempty"`
}

// stripes spreads the connections of one endpoint and role over several series, so that cores do not fight for cache lines.
const stripes = 4

// target holds the series of one endpoint: an array by role and stripe, each made at its first connection.
type target struct {
	endpoint Endpoint
	series   [numRoles][stripes]atomic.Pointer[series]
	now      [numRoles]now
}

// now is what goes on at the moment at an endpoint, for a role.
type now struct {
	making  gauge       // creates
	waiting gauge       // callers who have no connection yet, as far as Askers tell
	asked   atomic.Bool // some of them were counted
}

// gauge counts what goes on now, and keeps the most there ever was at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) begin() { raise(&g.most, g.now.Add(1)) }

func (g *gauge) end() { g.now.Add(-1) }

func (t *target) get(r Role, id uint64) *series {
	p := &t.series[r][id%stripes]
	if s := p.Load(); s != nil {
		return s
	}
	p.CompareAndSwap(nil, &series{of: t.endpoint, now: &t.now[r]})
	return p.Load()
}

// series counts what the connections of one endpoint, role and stripe did. Everything in it is atomic.
type series struct {
	of        Endpoint
	now       *now // the target's, for the role
	durations [NumMeasures][numOutcomes]lazyHistogram
	queuedAll lazyHistogram // waits in which no create was: part of MeasureWait and, the same, of MeasureQueued
	// Operations whose first response was their end: part of MeasureFirstQuery or MeasureReusedQuery and, the same, of MeasureOperation.
	wholeFirst, wholeReused [numOutcomes]lazyHistogram

	created   atomic.Int64 // creates that ended well
	failed    [NumPhases]atomic.Pointer[[numClasses]atomic.Int64]
	partial   atomic.Int64 // creates without a total
	closed    [numCloseReasons]atomic.Int64
	caller    atomic.Int64            // creates that ran under a caller's context
	phases    [NumPhases]atomic.Int64 // nanoseconds, over creates that ended well
	present   [NumPhases]atomic.Int64 // creates that ended well and had the phase
	rtts, rtt atomic.Int64            // creates that ended well and know their round trip; those round trips, in nanoseconds
	byRTT     [NumPhases]atomic.Int64 // nanoseconds, over these creates
	tlsInside atomic.Int64
	hidden    atomic.Int64 // connections that hide their file descriptor
	offered   atomic.Int64 // resumption offered, not accepted
	authTurns atomic.Int64
	authWait  atomic.Int64
	tickets   atomic.Int64          // handshakes in which the client asked for tickets
	kinds     [5][2][2]atomic.Int64 // handshakes by version (TLS 1.0 … 1.3, other), resumed, HelloRetryRequest
	excluded  atomic.Int64          // operations whose duration is not a latency
	stale     atomic.Int64          // dead connections that were met
	repeated  atomic.Int64          // attempts that repeated one that had failed

	prepared                 [4]atomic.Int64 // operations, by Prepared
	statements, once         atomic.Int64    // statements that callers prepared and closed; those of them that ran once
	prepareTime              atomic.Int64    // nanoseconds that preparing for one call took
	rowsDriver, rowsConsumer atomic.Int64    // nanoseconds
	answeredIdle             atomic.Int64    // the longest idle time after which a connection still answered
	silentIdle               atomic.Int64    // the shortest after which one did not, 0 for none
	silent                   atomic.Int64    // how many did not
}

func (s *series) record(m Measure, o Outcome, d time.Duration) { s.durations[m][o].record(d) }

// recordWhole records an operation whose first response, counted in m, was its end: in one step.
func (s *series) recordWhole(m Measure, o Outcome, d time.Duration) {
	if m == MeasureFirstQuery {
		s.wholeFirst[o].record(d)
	} else {
		s.wholeReused[o].record(d)
	}
}

// recordWait records a wait and its part that was no create: in one step where both are the same, as for nearly all operations.
func (s *series) recordWait(wait, queued time.Duration) {
	if wait != queued {
		s.record(MeasureWait, OK, wait)
		s.record(MeasureQueued, OK, queued)
		return
	}
	s.queuedAll.record(wait)
}

func (s *series) fail(p Phase, c ErrorClass) {
	n := s.failed[p].Load()
	if n == nil {
		s.failed[p].CompareAndSwap(nil, new([numClasses]atomic.Int64))
		n = s.failed[p].Load()
	}
	n[c].Add(1)
}

// slowFailure is how long a failed operation must have taken to count as one that got no answer, where its error is not a deadline's:
// drivers report their own read time-outs as a broken connection.
const slowFailure = time.Second

// afterIdle notes how the first operation after an idle time went. What got no answer is not known to have met a dead path: a slow server
// looks the same. The idle times on both sides together may tell (finding half_open).
func (s *series) afterIdle(idle time.Duration, o Outcome, took time.Duration) {
	switch {
	case o == OK:
		raise(&s.answeredIdle, int64(idle))
	case o == Timeout || o == Canceled || took >= slowFailure:
		s.silent.Add(1)
		for m := s.silentIdle.Load(); m == 0 || int64(idle) < m; m = s.silentIdle.Load() {
			if s.silentIdle.CompareAndSwap(m, int64(idle)) {
				break
			}
		}
	}
}

func (s *series) recordCreate(c *Create) {
	if c.Outcome == OK && !c.TotalUnknown {
		s.created.Add(1)
		s.record(MeasureCreate, OK, c.Duration)
		known := c.TCP.Known && c.TCP.RTT > 0
		if known {
			s.rtts.Add(1)
			s.rtt.Add(int64(c.TCP.RTT))
		}
		for p := range Phases {
			if sp := c.Phases[p]; sp.Present {
				s.phases[p].Add(int64(sp.Duration))
				s.present[p].Add(1)
				if known {
					s.byRTT[p].Add(int64(sp.Duration))
				}
			}
		}
	} else if c.Outcome == OK {
		s.created.Add(1)
		s.partial.Add(1)
	} else {
		s.fail(c.Failed, c.Class)
		if !c.TotalUnknown {
			s.record(MeasureCreate, c.Outcome, c.Duration)
		}
	}
	for p := range Phases {
		if sp := c.Phases[p]; sp.Present {
			o := OK
			if p == c.Failed {
				o = c.Outcome
			}
			s.record(Measure(p), o, sp.Duration)
		}
	}
	if c.Caller {
		s.caller.Add(1)
	}
	if c.Wire.NoDescriptor {
		s.hidden.Add(1)
	}
	if c.TLS.Inside {
		s.tlsInside.Add(1)
	}
	if c.TLS.Done {
		v := int(c.TLS.Version) - 0x0301 // RFC 8446 §4.1.2: 0x0301 is TLS 1.0
		if v < 0 || v > 3 {
			v = 4
		}
		s.kinds[v][number(c.TLS.Resumed)][number(c.TLS.HelloRetry)].Add(1)
		if c.TLS.TicketsAsked {
			s.tickets.Add(1)
		}
		if c.TLS.ResumptionOffered && !c.TLS.Resumed {
			s.offered.Add(1)
		}
	}
	s.authTurns.Add(int64(c.Wire.AuthTurns))
	s.authWait.Add(int64(c.Wire.AuthWait))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// otherSystems bounds the systems that have an "(other)" of their own.
const otherSystems = 8

// targets finds a target by endpoint. At most max are kept; what comes later shares one whose Address is "(other)".
type targets struct {
	mu      sync.Mutex
	byEnd   map[Endpoint]*target // mu
	order   []*target            // mu
	dropped atomic.Int64         // connections that went to "(other)"
}

func (ts *targets) get(e Endpoint, max int) *target {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byEnd[e]; t != nil {
		return t
	}
	if len(ts.order) >= max {
		ts.dropped.Add(1)
		e = Endpoint{System: e.System, Address: "(other)"}
		if t := ts.byEnd[e]; t != nil {
			return t
		}
		if len(ts.order) >= max+otherSystems { // the systems have a bound too
			e.System = "(other)"
			if t := ts.byEnd[e]; t != nil {
				return t
			}
		}
	}
	t := &target{endpoint: e}
	if ts.byEnd == nil {
		ts.byEnd = make(map[Endpoint]*target)
	}
	ts.byEnd[e] = t
	ts.order = append(ts.order, t)
	return t
}

func (ts *targets) all() []*target {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return append([]*target(nil), ts.order...)
}

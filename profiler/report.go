package profiler

import (
	"cmp"
	"slices"
	"time"
)

// Report is a snapshot of all that a Profiler counted. It is plain data, made for encoding/json (durations are in nanoseconds, under
// names that end in _ns) and for WriteTo, which prints it for people. A series that was being recorded while the snapshot was taken may
// be short of its last sample.
//
// It belongs to its caller. Its methods change nothing, so that they may be called concurrently; it shares memory with what Sub makes of it.
type Report struct {
	// At is when the snapshot was begun.
	At time.Time `json:"at"`
	// Endpoints has an entry for each endpoint and role that ever had a connection, by system, address, pool, namespace and role.
	Endpoints []EndpointReport `json:"endpoints"`
	// Pools are those that are or were watched (Profiler.WatchPool), by name.
	Pools []PoolReport `json:"pools,omitempty"`
	// Failures are the last creates that failed, the oldest first: at most 32.
	Failures []Failure `json:"failures,omitempty"`
	// Findings are what follows from all of it.
	Findings []Finding `json:"findings,omitempty"`
	// Dropped counts what did not fit into a bound.
	Dropped Dropped `json:"dropped"`
	// SinkPanics counts the panics of Profiler.Sinks, of a request's own and of observers, that were recovered.
	SinkPanics int64 `json:"sink_panics"`
}

// Dropped counts what did not fit into a bound.
type Dropped struct {
	// Endpoints counts the connections of endpoints that share one entry, Conns the live connections that are not listed.
	Endpoints int64 `json:"endpoints"`
	Conns     int64 `json:"conns"`
	// Closes counts those that the sinks never saw.
	Closes int64 `json:"closes"`
	// Sinks counts what Profiler.Sinks say that they left out (Dropper).
	Sinks int64 `json:"sinks"`
	// Operations counts those that are missing everywhere, because nothing told which connection they ran on.
	Operations int64 `json:"operations"`
}

// EndpointReport is what the connections of one endpoint and role did.
type EndpointReport struct {
	Endpoint
	// Role is the name of what the connections are for (Role.String).
	Role string `json:"role"`
	// Created counts the creates that ended well, Failed those that did not, Live those not closed yet, Closed
	// those that are.
	Created int64 `json:"created"`
	Failed  int64 `json:"failed"`
	Live    int64 `json:"live"`
	Closed  int64 `json:"closed"`
	// ByCaller counts the creates, failed ones included, that ran under the context of a caller who waited for it.
	ByCaller int64 `json:"by_caller"`
	// Making counts the creates that are going on at the moment, MakingMost is the most that ever went on at once.
	Making     int64 `json:"making"`
	MakingMost int64 `json:"making_most"`
	// Waiting counts the callers who wait for a connection at the moment, WaitingMost is the most that ever did at once. Valid if WaitingKnown:
	// they are counted of calls through an Asker (pool.Wrap), once one of these has met a connection, if Profiler.CollectOperations was called.
	Waiting      int64 `json:"waiting,omitempty"`
	WaitingMost  int64 `json:"waiting_most,omitempty"`
	WaitingKnown bool  `json:"waiting_known,omitempty"`
	// FailedIn counts the failed creates by phase, ClosedBy the closes by reason.
	FailedIn map[string]int64 `json:"failed_in,omitempty"`
	ClosedBy map[string]int64 `json:"closed_by,omitempty"`
	// Failures counts the failed creates by phase and class, in the order of both.
	Failures []FailureCount `json:"failures,omitempty"`
	// Measures are the distributions, in the order of Measure and Outcome; those that never happened are left out.
	Measures []MeasureReport `json:"measures"`
	// Breakdown says where the creates that ended well spent their time: the parts' sums add up to the create's sum exactly.
	Breakdown []PhaseShare `json:"breakdown,omitempty"`
	// RTTs counts the creates that ended well and know their network's round trip (Create.TCP), RTT is the mean of these.
	RTTs int64         `json:"rtts"`
	RTT  time.Duration `json:"rtt_ns"`
	// TLS counts the handshakes of all creates, failed ones included.
	TLS TLSReport `json:"tls"`
	// NoDescriptor counts the connections that hide their file descriptor (Wire.NoDescriptor).
	NoDescriptor int64 `json:"no_descriptor,omitempty"`
	// AuthTurns and AuthWait are sums over all creates: request/response exchanges of the login, and the time spent waiting for them.
	AuthTurns int64         `json:"auth_turns"`
	AuthWait  time.Duration `json:"auth_wait_ns"`
	// Excluded counts operations and commands whose duration is no latency; Stale counts the connections that were found dead when a caller was to have
	// them.
	Excluded int64 `json:"excluded"`
	Stale    int64 `json:"stale"`
	// Repeated counts the attempts with which the driver repeated one that had failed.
	Repeated int64 `json:"repeated,omitempty"`
	// HeldIdle counts the connections that are in a caller's hands and on which nothing has happened for Profiler.HeldIdleAfter or more,
	// HeldIdleLongest is the longest such time. Both are those of the moment.
	HeldIdle        int64         `json:"held_idle"`
	HeldIdleLongest time.Duration `json:"held_idle_longest_ns"`
	// Holders are the places in the program that took these connections, those with the most first, at most ten: nil without Profiler.Holders.
	Holders []Holder `json:"holders,omitempty"`
	// Silent counts the first operations after an idle time that got no answer, SilentIdle is the shortest idle time before one of them;
	// AnsweredIdle is the longest after which a connection did answer.
	Silent       int64         `json:"silent"`
	SilentIdle   time.Duration `json:"silent_idle_ns"`
	AnsweredIdle time.Duration `json:"answered_idle_ns"`
	// PreparedOnce, PreparedBefore and PreparedKept count operations by Operation.Prepared, PrepareTime is what preparing for one call took in
	// all.
	PreparedOnce   int64         `json:"prepared_once"`
	PreparedBefore int64         `json:"prepared_before"`
	PreparedKept   int64         `json:"prepared_kept,omitempty"`
	PrepareTime    time.Duration `json:"prepare_ns"`
	// Statements counts the statements that callers prepared and closed, one for each connection they were prepared on; StatementsOnce those
	// of them that ran once.
	Statements     int64 `json:"statements"`
	StatementsOnce int64 `json:"statements_once"`
	// RowsDriver and RowsConsumer are the sums of Operation.Driver and Consumer.
	RowsDriver   time.Duration `json:"rows_driver_ns"`
	RowsConsumer time.Duration `json:"rows_consumer_ns"`
	// Amortisation is set where connections were created and used again.
	Amortisation *Amortisation `json:"amortisation,omitempty"`

	dist map[Measure]*[numOutcomes]*Distribution
	rtt  time.Duration // sum
}

// MeasureReport summarises one distribution. Count, Sum and Mean are exact, P50, P95 and P99 are within RelativeError; Min and Max are exact,
// and after Sub those of all that was ever recorded.
type MeasureReport struct {
	// Measure and Outcome are the names of both.
	Measure string        `json:"measure"`
	Outcome string        `json:"outcome"`
	Count   uint64        `json:"count"`
	Sum     time.Duration `json:"sum_ns"`
	Mean    time.Duration `json:"mean_ns"`
	Min     time.Duration `json:"min_ns"`
	P50     time.Duration `json:"p50_ns"`
	P95     time.Duration `json:"p95_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// PhaseShare is one phase's part of the creates that ended well.
type PhaseShare struct {
	Phase string `json:"phase"`
	// Count is how many creates had the phase, Sum their time in it, Mean that sum spread over all creates.
	Count int64         `json:"count"`
	Sum   time.Duration `json:"sum_ns"`
	Mean  time.Duration `json:"mean_ns"`
	Share float64       `json:"share"`
	// RoundTrips is the mean in round trips, over the creates that know theirs: their time in the phase over their RTT. What the exchanges of
	// a phase took of the network can't be more; computing is in it, too. 0 where no round trip is known.
	RoundTrips float64 `json:"round_trips,omitempty"`

	byRTT time.Duration // Sum over these creates
}

// FailureCount is how many creates failed in one phase for reasons of one ErrorClass. Phase and Class are the names of both.
type FailureCount struct {
	Phase string `json:"phase"`
	Class string `json:"class"`
	Count int64  `json:"count"`
}

// TLSReport counts handshakes.
type TLSReport struct {
	// Handshakes counts those that were completed, Resumed those of them that resumed a session.
	Handshakes int64 `json:"handshakes"`
	Resumed    int64 `json:"resumed"`
	// Refused counts those that offered a session that the server did not take.
	Refused int64 `json:"refused"`
	// TicketsAsked counts those in which the client asked for session tickets, without which there is nothing to resume.
	TicketsAsked int64 `json:"tickets_asked"`
	// HelloRetry counts those with a HelloRetryRequest, which costs a round trip.
	HelloRetry int64 `json:"hello_retry"`
	// Inside counts connections whose own dialer made the TLS, unseen: they are in no other of these.
	Inside int64 `json:"inside"`
	// Versions are the handshakes by version, "TLS 1.3" and the like, "other" for what has no name.
	Versions map[string]int64 `json:"versions,omitempty"`
	// Kinds are the same handshakes by what they were like.
	Kinds []HandshakeCount `json:"kinds,omitempty"`
}

// HandshakeCount counts the handshakes of one kind: of one version (as in TLSReport.Versions), resumed or full, with a HelloRetryRequest or
// without.
type HandshakeCount struct {
	Version    string `json:"version"`
	Resumed    bool   `json:"resumed"`
	HelloRetry bool   `json:"hello_retry"`
	Count      int64  `json:"count"`
}

// Failure describes a create that failed. Role, Phase and Outcome are the names of what the create has under these.
type Failure struct {
	Endpoint
	Role string `json:"role"`
	// At is when it failed, Duration how long it had gone on by then.
	At      time.Time `json:"at"`
	Phase   string    `json:"phase"`
	Outcome string    `json:"outcome"`
	// Class is Create.Class.
	Class    string        `json:"class"`
	Duration time.Duration `json:"duration_ns"`
	// Error is the text of the driver's error. It comes from outside: WriteTo writes what would steer a terminal as escape sequences.
	Error string `json:"error"`
	// Cause is what the wire saw first, where it says more than the driver's error.
	Cause string `json:"cause,omitempty"`
	// Protocol is Wire.Protocol where it is not the endpoint's, ServerError the code of an error that the server sent in the clear.
	Protocol    string `json:"protocol,omitempty"`
	ServerError string `json:"server_error,omitempty"`
	// Advice is Create.Advice.
	Advice string `json:"advice"`
}

// Why is Class, or Outcome where that says more.
func (f Failure) Why() string {
	if f.Class == "" || f.Class == ClassOther.String() {
		return f.Outcome
	}
	return f.Class
}

// Report takes a snapshot: an empty one of a nil Profiler. It asks the watched pools for their counters, and reports closes that were still to
// be reported to the sinks, so it blocks as long as both do, and must not be called from inside a pool's callback, nor from a pool's stats
// (WatchPool). Operations and creates go on meanwhile.
func (p *Profiler) Report() Report {
	r := Report{At: time.Now(), Endpoints: []EndpointReport{}}
	if p == nil {
		return r
	}
	r.Pools = p.pools.report() // first, since a pool's counters may tell why connections were closed
	p.flushCloses()
	for _, t := range p.targets.all() {
		for _, role := range []Role{RolePool, RoleMonitor, RoleCancel, RoleOther, RoleUnattributed} {
			if er, ok := t.report(role); ok {
				r.Endpoints = append(r.Endpoints, er)
			}
		}
	}
	slices.SortStableFunc(r.Endpoints, func(a, b EndpointReport) int {
		return cmp.Or(cmp.Compare(a.System, b.System), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Pool, b.Pool),
			cmp.Compare(a.Namespace, b.Namespace))
	})
	r.addHeldIdle(p)
	slices.SortFunc(r.Pools, func(a, b PoolReport) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range p.failures.all() {
		r.Failures = append(r.Failures, c.failure())
	}
	r.Dropped = Dropped{Endpoints: p.targets.dropped.Load(), Conns: p.live.dropped.Load(), Closes: p.lost.Load(), Sinks: p.sinksDropped(), Operations: p.untied.Load()}
	r.SinkPanics = p.panics.Load()
	r.derive()
	return r
}

// Sub is what happened between the earlier report and r, both of one Profiler. What earlier has more of, as it has when the two are in the
// wrong order or of different Profilers, counts as none. Minima, maxima, Live, Making, HeldIdle, the idle times and the pools' gauges stay
// those of r. A Report that was read from JSON lacks the distributions: with one of these, Measures, Breakdown, RTT and Amortisation are
// left out, and the findings that rest on them.
func (r Report) Sub(earlier Report) Report {
	type key struct {
		e    Endpoint
		role string
	}
	before := make(map[key]*EndpointReport)
	for i := range earlier.Endpoints {
		e := &earlier.Endpoints[i]
		before[key{e.Endpoint, e.Role}] = e
	}
	nothing := &EndpointReport{dist: map[Measure]*[numOutcomes]*Distribution{}}
	out := r
	out.Endpoints = make([]EndpointReport, 0, len(r.Endpoints))
	for _, e := range r.Endpoints {
		b := before[key{e.Endpoint, e.Role}]
		if b == nil {
			b = nothing
		}
		out.Endpoints = append(out.Endpoints, e.sub(b))
	}
	pools := make(map[string]PoolReport)
	for _, p := range earlier.Pools {
		pools[p.Name] = p
	}
	out.Pools = nil
	for _, p := range r.Pools {
		p.PoolStats = p.PoolStats.sub(pools[p.Name].PoolStats)
		p.Opened = minus(p.Opened, pools[p.Name].Opened)
		out.Pools = append(out.Pools, p)
	}
	out.Failures = nil
	for _, f := range r.Failures {
		if f.At.After(earlier.At) {
			out.Failures = append(out.Failures, f)
		}
	}
	out.Dropped.Endpoints = minus(out.Dropped.Endpoints, earlier.Dropped.Endpoints)
	out.Dropped.Conns = minus(out.Dropped.Conns, earlier.Dropped.Conns)
	out.Dropped.Closes = minus(out.Dropped.Closes, earlier.Dropped.Closes)
	out.Dropped.Sinks = minus(out.Dropped.Sinks, earlier.Dropped.Sinks)
	out.Dropped.Operations = minus(out.Dropped.Operations, earlier.Dropped.Operations)
	out.SinkPanics = minus(out.SinkPanics, earlier.SinkPanics)
	out.derive()
	return out
}

// Endpoint finds the entry of one endpoint's address and role, nil if there is none. An empty address takes the first with the role.
func (r Report) Endpoint(address string, role Role) *EndpointReport {
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Role == role.String() && (address == "" || e.Address == address) {
			return e
		}
	}
	return nil
}

// Distribution is the distribution of one measure and outcome, nil if it never happened. It is nil in a Report that was read from JSON.
// It is the report's own: merge it into another, not another into it.
func (e *EndpointReport) Distribution(m Measure, o Outcome) *Distribution {
	if e == nil || e.dist[m] == nil {
		return nil
	}
	return e.dist[m][o]
}

// Measure finds one summary, nil if it never happened.
func (e *EndpointReport) Measure(m Measure, o Outcome) *MeasureReport {
	if e == nil {
		return nil
	}
	for i := range e.Measures {
		if r := &e.Measures[i]; r.Measure == m.String() && r.Outcome == o.String() {
			return r
		}
	}
	return nil
}

// Queries counts the operations that ran: first and reused, of all outcomes.
func (e *EndpointReport) Queries() (first, reused uint64) {
	if e == nil {
		return 0, 0
	}
	for _, r := range e.Measures {
		switch r.Measure {
		case MeasureFirstQuery.String():
			first += r.Count
		case MeasureReusedQuery.String():
			reused += r.Count
		}
	}
	return first, reused
}

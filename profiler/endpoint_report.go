package profiler

import (
	"crypto/tls"
	"time"
)

// report adds up the stripes of one role; ok is false if it never had a connection.
func (t *target) report(role Role) (e EndpointReport, ok bool) {
	e = EndpointReport{Endpoint: t.endpoint, Role: role.String(), dist: make(map[Measure]*[numOutcomes]*Distribution)}
	var phases, present, byRTT [NumPhases]int64
	var failed [NumPhases][numClasses]int64
	var kinds [5][2][2]int64
	for i := range t.series[role] {
		s := t.series[role][i].Load()
		if s == nil {
			continue
		}
		ok = true
		for r := range s.closed { // before the creates: a connection is never closed and not yet created
			if n := s.closed[r].Load(); n > 0 {
				e.Closed += n
				count(&e.ClosedBy, CloseReason(r).String(), n)
			}
		}
		for m := range s.durations {
			for o := range s.durations[m] {
				if h := s.durations[m][o].Load(); h != nil {
					h.addTo(e.distribution(Measure(m), Outcome(o)))
				}
			}
		}
		e.addBoth(&s.queuedAll, MeasureWait, MeasureQueued, OK)
		for o := range numOutcomes {
			e.addBoth(&s.wholeFirst[o], MeasureFirstQuery, MeasureOperation, o)
			e.addBoth(&s.wholeReused[o], MeasureReusedQuery, MeasureOperation, o)
		}
		e.Created += s.created.Load()
		for p := range Phases {
			if n := s.failed[p].Load(); n != nil {
				for c := range n {
					failed[p][c] += n[c].Load()
				}
			}
			phases[p] += s.phases[p].Load()
			present[p] += s.present[p].Load()
			byRTT[p] += s.byRTT[p].Load()
		}
		e.RTTs += s.rtts.Load()
		e.rtt = plus(e.rtt, time.Duration(max(0, s.rtt.Load())))
		e.ByCaller += s.caller.Load()
		e.TLS.Refused += s.offered.Load()
		e.TLS.TicketsAsked += s.tickets.Load()
		e.TLS.Inside += s.tlsInside.Load()
		e.NoDescriptor += s.hidden.Load()
		for v := range kinds {
			for k := range 4 {
				kinds[v][k/2][k%2] += s.kinds[v][k/2][k%2].Load()
			}
		}
		e.AuthTurns += s.authTurns.Load()
		e.AuthWait = plus(e.AuthWait, time.Duration(max(0, s.authWait.Load())))
		e.Excluded += s.excluded.Load()
		e.Stale += s.stale.Load()
		e.Repeated += s.repeated.Load()
		e.Silent += s.silent.Load()
		if d := time.Duration(s.silentIdle.Load()); d > 0 && (e.SilentIdle == 0 || d < e.SilentIdle) {
			e.SilentIdle = d
		}
		e.AnsweredIdle = max(e.AnsweredIdle, time.Duration(s.answeredIdle.Load()))
		e.PreparedOnce += s.prepared[PreparedOnce].Load()
		e.PreparedBefore += s.prepared[PreparedBefore].Load()
		e.PreparedKept += s.prepared[PreparedKept].Load()
		e.PrepareTime = plus(e.PrepareTime, time.Duration(max(0, s.prepareTime.Load())))
		e.Statements += s.statements.Load()
		e.StatementsOnce += s.once.Load()
		e.RowsDriver = plus(e.RowsDriver, time.Duration(max(0, s.rowsDriver.Load())))
		e.RowsConsumer = plus(e.RowsConsumer, time.Duration(max(0, s.rowsConsumer.Load())))
	}
	if !ok {
		return e, false
	}
	now := &t.now[role]
	e.Making, e.MakingMost = now.making.now.Load(), now.making.most.Load()
	e.Waiting, e.WaitingMost, e.WaitingKnown = now.waiting.now.Load(), now.waiting.most.Load(), now.asked.Load()
	e.Live = e.Created - e.Closed
	for v := range kinds {
		name := "other"
		if v < 4 {
			name = tls.VersionName(uint16(0x0301 + v))
		}
		for k := range 4 {
			if n := kinds[v][k/2][k%2]; n > 0 {
				e.TLS.add(HandshakeCount{Version: name, Resumed: k/2 == 1, HelloRetry: k%2 == 1, Count: n})
			}
		}
	}
	for p := range Phases {
		for c, n := range failed[p] {
			if n > 0 {
				e.Failed += n
				count(&e.FailedIn, p.String(), n)
				e.Failures = append(e.Failures, FailureCount{Phase: p.String(), Class: ErrorClass(c).String(), Count: n})
			}
		}
		if present[p] > 0 {
			e.Breakdown = append(e.Breakdown, PhaseShare{
				Phase: p.String(), Count: present[p], Sum: time.Duration(phases[p]), byRTT: time.Duration(byRTT[p]),
			})
		}
	}
	return e, true
}

func (t *TLSReport) add(h HandshakeCount) {
	t.Kinds = append(t.Kinds, h)
	t.Handshakes += h.Count
	if h.Resumed {
		t.Resumed += h.Count
	}
	if h.HelloRetry {
		t.HelloRetry += h.Count
	}
	count(&t.Versions, h.Version, h.Count)
}

func (e *EndpointReport) distribution(m Measure, o Outcome) *Distribution {
	if e.dist[m] == nil {
		e.dist[m] = new([numOutcomes]*Distribution)
	}
	if e.dist[m][o] == nil {
		e.dist[m][o] = new(Distribution)
	}
	return e.dist[m][o]
}

// addBoth adds what l holds, which counts in two measures, to both.
func (e *EndpointReport) addBoth(l *lazyHistogram, m, n Measure, o Outcome) {
	if l.Load() == nil {
		return
	}
	var d Distribution
	l.addTo(&d)
	e.distribution(m, o).Merge(&d)
	e.distribution(n, o).Merge(&d)
}

func count(m *map[string]int64, k string, n int64) {
	if *m == nil {
		*m = make(map[string]int64)
	}
	(*m)[k] += n
}

// sub is what happened since b. Where one of the two has no distributions, because it was decoded, what rests on them is left out.
func (e EndpointReport) sub(b *EndpointReport) EndpointReport {
	known := e.dist != nil && b.dist != nil
	r := e
	for _, n := range []struct{ of, before *int64 }{
		{&r.Created, &b.Created}, {&r.Failed, &b.Failed}, {&r.Closed, &b.Closed}, {&r.ByCaller, &b.ByCaller}, {&r.RTTs, &b.RTTs},
		{&r.AuthTurns, &b.AuthTurns}, {&r.Excluded, &b.Excluded}, {&r.Stale, &b.Stale}, {&r.Repeated, &b.Repeated}, {&r.Silent, &b.Silent},
		{&r.PreparedOnce, &b.PreparedOnce}, {&r.PreparedBefore, &b.PreparedBefore}, {&r.PreparedKept, &b.PreparedKept},
		{&r.Statements, &b.Statements}, {&r.StatementsOnce, &b.StatementsOnce}, {&r.NoDescriptor, &b.NoDescriptor},
		{&r.TLS.Handshakes, &b.TLS.Handshakes}, {&r.TLS.Resumed, &b.TLS.Resumed}, {&r.TLS.Refused, &b.TLS.Refused},
		{&r.TLS.TicketsAsked, &b.TLS.TicketsAsked}, {&r.TLS.HelloRetry, &b.TLS.HelloRetry}, {&r.TLS.Inside, &b.TLS.Inside},
	} {
		*n.of = minus(*n.of, *n.before)
	}
	for _, d := range []struct{ of, before *time.Duration }{
		{&r.rtt, &b.rtt}, {&r.AuthWait, &b.AuthWait}, {&r.PrepareTime, &b.PrepareTime}, {&r.RowsDriver, &b.RowsDriver},
		{&r.RowsConsumer, &b.RowsConsumer},
	} {
		*d.of = minus(*d.of, *d.before)
	}
	r.TLS.Versions = subCounts(e.TLS.Versions, b.TLS.Versions)
	r.TLS.Kinds = nil
	for _, h := range e.TLS.Kinds {
		for _, o := range b.TLS.Kinds {
			if o.Version == h.Version && o.Resumed == h.Resumed && o.HelloRetry == h.HelloRetry {
				h.Count = minus(h.Count, o.Count)
			}
		}
		if h.Count > 0 {
			r.TLS.Kinds = append(r.TLS.Kinds, h)
		}
	}
	r.FailedIn = subCounts(e.FailedIn, b.FailedIn)
	r.ClosedBy = subCounts(e.ClosedBy, b.ClosedBy)
	r.Failures = nil
	for _, f := range e.Failures {
		for _, o := range b.Failures {
			if o.Phase == f.Phase && o.Class == f.Class {
				f.Count = minus(f.Count, o.Count)
			}
		}
		if f.Count > 0 {
			r.Failures = append(r.Failures, f)
		}
	}
	r.Breakdown = nil
	r.dist = make(map[Measure]*[numOutcomes]*Distribution)
	if !known {
		r.RTTs, r.rtt = 0, 0
		return r
	}
	for _, s := range e.Breakdown {
		for _, o := range b.Breakdown {
			if o.Phase == s.Phase {
				s.Count = minus(s.Count, o.Count)
				s.Sum = minus(s.Sum, o.Sum)
				s.byRTT = minus(s.byRTT, o.byRTT)
			}
		}
		if s.Count > 0 {
			r.Breakdown = append(r.Breakdown, s)
		}
	}
	for m, byOutcome := range e.dist {
		for o, d := range byOutcome {
			if d == nil {
				continue
			}
			if d = d.Sub(b.Distribution(m, Outcome(o))); d.Count > 0 {
				*r.distribution(m, Outcome(o)) = *d
			}
		}
	}
	return r
}

func subCounts(a, b map[string]int64) map[string]int64 {
	var r map[string]int64
	for k, n := range a {
		if n = minus(n, b[k]); n > 0 {
			count(&r, k, n)
		}
	}
	return r
}

// summarise fills in what follows from the distributions and sums.
func (e *EndpointReport) summarise() {
	e.Measures = []MeasureReport{}
	for m := range NumMeasures {
		for o := range numOutcomes {
			d := e.Distribution(m, o)
			if d == nil || d.Count == 0 {
				continue
			}
			e.Measures = append(e.Measures, MeasureReport{
				Measure: m.String(), Outcome: o.String(), Count: d.Count, Sum: d.Sum, Mean: d.Mean(), Min: d.Min, Max: d.Max,
				P50: d.Quantile(0.50), P95: d.Quantile(0.95), P99: d.Quantile(0.99),
			})
		}
	}
	creates := e.Distribution(MeasureCreate, OK)
	e.RTT = 0
	if e.RTTs > 0 {
		e.RTT = e.rtt / time.Duration(e.RTTs)
	}
	for i := range e.Breakdown {
		s := &e.Breakdown[i]
		if creates != nil && creates.Count > 0 {
			s.Mean = s.Sum / time.Duration(creates.Count)
		}
		if creates != nil && creates.Sum > 0 {
			s.Share = float64(s.Sum) / float64(creates.Sum)
		}
		s.RoundTrips = 0
		if e.rtt > 0 {
			s.RoundTrips = float64(s.byRTT) / float64(e.rtt)
		}
	}
}

// derive fills in what follows from other parts of the report.
func (r *Report) derive() {
	for i := range r.Endpoints {
		r.Endpoints[i].summarise()
	}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		e.Amortisation = nil
		if e.Role != RolePool.String() {
			continue
		}
		var monitor *EndpointReport
		if e.System == "mongodb" {
			monitor = r.monitorOf(e)
		}
		e.Amortisation = amortise(e, monitor)
	}
	r.Findings = findings(r)
}

// monitorOf is the entry of the monitoring of a pool's server, nil if there is none.
func (r *Report) monitorOf(e *EndpointReport) *EndpointReport {
	for i := range r.Endpoints {
		if m := &r.Endpoints[i]; m.Role == RoleMonitor.String() && m.System == e.System && m.Address == e.Address {
			return m
		}
	}
	return nil
}

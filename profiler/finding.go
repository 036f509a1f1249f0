package profiler

import (
	"fmt"
	"time"
)

// Finding is a conclusion that a report draws from its numbers, with the evidence it rests on and what to do about it. Findings are few
// and careful: what the numbers don't tell apart is not claimed.
type Finding struct {
	// ID is stable: "pool_churn", "create_failed", "hello_retry", "held_idle", "half_open", "stale_connections", "prepared_once",
	// "pool_saturated", "establishment_limited", "hook_slow", "resolver_timeout", "connect_retried", "greet_late",
	// "tls_never_resumed", "no_liveness_check", "pool_cleared", "verify_slow", "auth_computes", "create_opaque", "connect_outlasts_wait",
	// "operations_untied".
	ID string `json:"id"`
	// Severity is "info", "warning" or "critical".
	Severity string `json:"severity"`
	// Subject is the endpoint's address or the pool's name.
	Subject string `json:"subject"`
	// Title says what is so, Evidence the numbers that say so, Advice what to do about it, "" where nothing is to be done. They are for
	// people, and may change from one version to the next.
	Title    string `json:"title"`
	Evidence string `json:"evidence"`
	Advice   string `json:"advice"`
}

func findings(r *Report) []Finding {
	var fs []Finding
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		if f, ok := churn(r, e); ok {
			fs = append(fs, f)
		}
		if f, ok := helloRetry(e); ok {
			fs = append(fs, f)
		}
		if f, ok := neverResumed(e); ok {
			fs = append(fs, f)
		}
		if f, ok := createFailed(r, e); ok {
			fs = append(fs, f)
		}
		fs = append(fs, phaseFindings(e)...)
		fs = append(fs, useFindings(r, e)...)
	}
	if f, ok := untied(r); ok {
		fs = append(fs, f)
	}
	for i := range r.Pools {
		if f, ok := saturated(r, &r.Pools[i]); ok {
			fs = append(fs, f)
		}
		if f, ok := cleared(r, &r.Pools[i]); ok {
			fs = append(fs, f)
		}
		if f, ok := establishmentLimited(&r.Pools[i]); ok {
			fs = append(fs, f)
		}
	}
	return fs
}

// untied: operations are missing in the report itself.
func untied(r *Report) (Finding, bool) {
	n := r.Dropped.Operations
	if n == 0 {
		return Finding{}, false
	}
	return Finding{
		ID: "operations_untied", Severity: "warning", Subject: "connprof", Title: "operations are missing in this report",
		Evidence: fmt.Sprintf("of %d MongoDB commands nothing told on which connection they ran", n),
		Advice:   "if several clients are made from one set of instrumented options, call Instrument once for each client",
	}, true
}

// churn: a pool that makes connections again and again. The advice follows the reason that the pool's own counters give; the wait for a
// free connection is another matter and is not mentioned.
func churn(r *Report, e *EndpointReport) (Finding, bool) {
	first, reused := e.Queries()
	queries := first + reused
	const enough = 20 // queries, and connections closed, before a ratio means something
	if e.Role != RolePool.String() || queries < enough || e.Closed < enough || float64(e.Created)/float64(queries) < 0.05 {
		return Finding{}, false
	}
	create := e.Measure(MeasureCreate, OK)
	if create == nil {
		return Finding{}, false
	}
	f := Finding{
		ID: "pool_churn", Severity: "warning", Subject: e.Address, Title: "connections are made again and again",
		Evidence: fmt.Sprintf("%d connections for %d queries (%.2f dials per query), %s spent on making them, %s each",
			e.Created, queries, float64(e.Created)/float64(queries), round(create.Sum), round(create.Mean)),
		Advice: "find what closes them: closes by reason say " + countsText(e.ClosedBy),
	}
	if n := e.ClosedBy[CloseCanceled.String()]; n >= e.Closed-n {
		f.Evidence += fmt.Sprintf("; %d were closed because an operation on them was canceled or timed out", n)
		f.Advice = "deadlines are shorter than the queries need, and each one that passes costs a connection: give queries more time"
		if c := r.roleOf(e, RoleCancel); c != nil {
			f.Evidence += fmt.Sprintf(", with %d connections more for cancel requests", plus(c.Created, c.Failed))
			f.Advice += ", or let pgx keep the connection (pgconn.CancelRequestContextWatcherHandler with a DeadlineDelay)"
		}
		return f, true
	}
	for _, p := range r.Pools {
		if p.Name != e.poolName() {
			continue
		}
		if n := p.IdleLimitClosed; n > plus(p.IdleTimeClosed, p.LifetimeClosed) && n >= e.Closed/2 {
			f.Evidence += fmt.Sprintf("; the pool closed %d because of its limit of idle connections, %d callers waited", n, p.WaitCount)
			f.Advice = "set MaxIdleConns = MaxOpenConns (or raise it to the usual number in use, with ConnMaxIdleTime to shrink)"
		} else if p.Opened > e.Created/2 && p.Opened >= enough {
			f.Evidence += fmt.Sprintf("; %d pools were opened", p.Opened)
			f.Advice = "build the client once and share it"
		}
	}
	return f, true
}

// roleOf is the entry of e's endpoint with another role, nil if there is none.
func (r *Report) roleOf(e *EndpointReport, role Role) *EndpointReport {
	for i := range r.Endpoints {
		if o := &r.Endpoints[i]; o.Endpoint == e.Endpoint && o.Role == role.String() {
			return o
		}
	}
	return nil
}

// poolName is the name under which the adoption packages watch the pool.
func (e *EndpointReport) poolName() string {
	if e.Pool != "" {
		return e.Pool
	}
	return e.Address
}

// helloRetry: half or more of the handshakes needed a second ClientHello.
func helloRetry(e *EndpointReport) (Finding, bool) {
	if e.TLS.HelloRetry == 0 || e.TLS.HelloRetry < e.TLS.Handshakes-e.TLS.HelloRetry {
		return Finding{}, false
	}
	return Finding{
		ID: "hello_retry", Severity: "warning", Subject: e.Address, Title: "TLS takes one round trip more than it needs",
		Evidence: fmt.Sprintf("%d of %d handshakes had a HelloRetryRequest", e.TLS.HelloRetry, e.TLS.Handshakes),
		Advice: "let the server accept X25519 (PostgreSQL 18: ssl_groups), or set the client's CurvePreferences to the group that " +
			"the server chose",
	}, true
}

// createFailed: creates that ended in an error; critical unless most went well. The advice is that of the last one.
func createFailed(r *Report, e *EndpointReport) (Finding, bool) {
	if e.Failed == 0 {
		return Finding{}, false
	}
	f := Finding{
		ID: "create_failed", Severity: "critical", Subject: e.Address, Title: "connections could not be made",
		Evidence: fmt.Sprintf("%d of %d creates failed, by phase: %s", e.Failed, plus(e.Failed, e.Created), countsText(e.FailedIn)),
	}
	if e.Created > e.Failed {
		f.Severity = "warning"
	}
	var most int64
	for p := range Phases { // where none of the last failures is of this endpoint
		if n := e.FailedIn[p.String()]; n > most {
			most, f.Advice = n, adviceFor(p)
		}
	}
	for i := len(r.Failures) - 1; i >= 0; i-- {
		if l := r.Failures[i]; l.Endpoint == e.Endpoint && l.Role == e.Role {
			f.Evidence += fmt.Sprintf("; the last one in %s: %s", l.Phase, oneLine(l.Error))
			f.Advice = l.Advice
			break
		}
	}
	return f, true
}

// round keeps three significant digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for v := d; v >= 1000 || v <= -1000; v /= 10 {
		unit *= 10
	}
	return d.Round(unit)
}

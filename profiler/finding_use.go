package profiler

import (
	"fmt"
	"strings"
	"time"
)

// The findings about the use of connections, as opposed to their making.

// saturated: callers waited for a connection while all that the pool may open were in use. A wait for a connection that was being made for
// the caller is no such wait, and does not count.
func saturated(r *Report, p *PoolReport) (Finding, bool) {
	var queries int64
	var heldIdle int64
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Role == RolePool.String() && e.poolName() == p.Name {
			first, reused := e.Queries()
			queries += int64(first + reused)
			heldIdle += e.HeldIdle
		}
	}
	const (
		enough     = 20
		enoughTime = 100 * time.Millisecond
	)
	if p.MaxOpen == 0 || p.WaitCount == 0 || p.WaitCount < enough && p.WaitDuration < enoughTime || float64(p.WaitCount)*100 < float64(queries) {
		return Finding{}, false
	}
	mean := p.WaitDuration / time.Duration(p.WaitCount)
	if mean < time.Millisecond {
		return Finding{}, false
	}
	f := Finding{
		ID: "pool_saturated", Severity: "warning", Subject: p.Name, Title: "callers queue for a free connection",
		Evidence: fmt.Sprintf("%d waits of %s each, %s in all, for %d queries; at most %d connections, %d in use now",
			p.WaitCount, round(mean), round(p.WaitDuration), queries, p.MaxOpen, p.InUse),
		Advice: "hold connections for a shorter time, or raise MaxOpenConns if the server can take more",
	}
	if heldIdle > 0 {
		f.Evidence += fmt.Sprintf(", %d of them held idle", heldIdle)
		f.Advice = "look at the connections that are held idle first: a larger pool would only fill up later"
	}
	return f, true
}

// heldIdle: connections in callers' hands on which nothing happens. That may be a leak, or on purpose.
func heldIdle(r *Report, e *EndpointReport) (Finding, bool) {
	if e.HeldIdle == 0 {
		return Finding{}, false
	}
	f := Finding{
		ID: "held_idle", Severity: "info", Subject: e.Address, Title: "connections are held idle",
		Evidence: fmt.Sprintf("%d of %d connections are with a caller and nothing has run on them lately, on one for %s",
			e.HeldIdle, e.Live, round(e.HeldIdleLongest.Truncate(100*time.Millisecond))),
		Advice: "close rows (Rows.Close; QueryRow without Scan keeps them open), end transactions, close a sql.Conn; nothing is wrong if they " +
			"are held on purpose, as for a lock or a notification",
	}
	if len(e.Holders) > 0 {
		h := &e.Holders[0]
		f.Evidence += fmt.Sprintf("; %d taken in %s", h.Count, h)
	} else {
		f.Advice += "; Profiler.Holders tells who holds them"
	}
	for _, p := range r.Pools {
		if p.Name == e.poolName() && p.MaxOpen > 0 && p.InUse >= p.MaxOpen {
			f.Severity = "warning"
			f.Evidence += fmt.Sprintf("; all %d that the pool may open are in use", p.MaxOpen)
		}
	}
	return f, true
}

// halfOpen: connections that did not answer after a long idle time, while all shorter idle times did no harm. A slow query that runs into
// its deadline looks the same, but does not keep to the idle time.
func halfOpen(e *EndpointReport) (Finding, bool) {
	if e.Silent == 0 || e.SilentIdle < time.Second || e.AnsweredIdle == 0 || e.SilentIdle <= e.AnsweredIdle {
		return Finding{}, false
	}
	f := Finding{
		ID: "half_open", Severity: "info", Subject: e.Address, Title: "connections may die unnoticed while they are idle",
		Evidence: fmt.Sprintf("%d queries got no answer on a connection that had been idle for %s or more; "+
			"the longest idle time after which one answered is %s",
			e.Silent, round(e.SilentIdle), round(e.AnsweredIdle)),
		Advice: fmt.Sprintf("suspect a firewall or NAT that forgets idle connections: set ConnMaxIdleTime below %s, "+
			"and TCP keep-alives more often than that (a TCP_USER_TIMEOUT bounds how long a query then hangs)",
			round(e.SilentIdle)),
	}
	if e.Silent >= 3 {
		f.Severity = "warning"
	}
	return f, true
}

// stale: connections that the server had closed while they were idle.
func stale(e *EndpointReport) (Finding, bool) {
	const enough = 3
	d := e.Distribution(MeasureStaleIdle, OK)
	if e.Stale < enough || d == nil || d.Count < enough {
		return Finding{}, false
	}
	return Finding{
		ID: "stale_connections", Severity: "warning", Subject: e.Address, Title: "idle connections are closed by the other side",
		Evidence: fmt.Sprintf("%d connections were found dead when a caller was to have them, after %s to %s idle; "+
			"the longest idle time that one survived is %s",
			e.Stale, round(d.Min), round(d.Max), round(e.AnsweredIdle)),
		Advice: "set ConnMaxIdleTime (and ConnMaxLifetime) below the server's own limit, or find what kills them: each costs a new connection",
	}, true
}

// noLivenessCheck: go-sql-driver/mysql asks the socket of an idle connection, before it writes to it, whether the server has closed it
// (conncheck.go). It does without where it is not given the socket, and the next query then fails.
func noLivenessCheck(e *EndpointReport) (Finding, bool) {
	if e.NoDescriptor == 0 || e.System != "mysql" || e.Role != RolePool.String() {
		return Finding{}, false
	}
	return Finding{
		ID: "no_liveness_check", Severity: "info", Subject: e.Address, Title: "the driver can't see whether an idle connection is still alive",
		Evidence: fmt.Sprintf("%d of %d connections came from a dialer that hides the socket", e.NoDescriptor, plus(e.Created, e.Failed)),
		Advice: "let the dialer return the *net.TCPConn itself, or a type that passes its SyscallConn on; else keep ConnMaxIdleTime well below " +
			"the server's own limit",
	}, true
}

// preparedOnce: calls for each of which a statement was prepared, executed once and closed.
func preparedOnce(e *EndpointReport) (Finding, bool) {
	first, reused := e.Queries()
	queries := int64(first + reused)
	const enough = 20
	if e.PreparedOnce < enough || float64(e.PreparedOnce)*10 < float64(queries) {
		return Finding{}, false
	}
	f := Finding{
		ID: "prepared_once", Severity: "info", Subject: e.Address, Title: "statements are prepared for one call each",
		Evidence: fmt.Sprintf("%d of %d queries prepared a statement, executed it once and closed it: one round trip more each, %s on average",
			e.PreparedOnce, queries, round(e.PrepareTime/time.Duration(e.PreparedOnce))),
		Advice: "prepare once and use the sql.Stmt again",
	}
	switch e.System {
	case "postgresql":
		f.Advice = "let pgx keep its statements (default_query_exec_mode=cache_statement, or exec behind a pooler that can't), or prepare once"
	case "mysql":
		f.Advice = "set interpolateParams=true (not with the client charsets big5, cp932, gb2312, gbk and sjis), or prepare once and use the " +
			"sql.Stmt again"
	}
	f.Advice += fmt.Sprintf(": each call then takes about %s less", round(e.PrepareTime/time.Duration(e.PreparedOnce)))
	return f, true
}

// useFindings are those of one endpoint's use.
func useFindings(r *Report, e *EndpointReport) []Finding {
	if e.Role != RolePool.String() || strings.HasPrefix(e.Address, "(other)") {
		return nil
	}
	var fs []Finding
	if f, ok := heldIdle(r, e); ok {
		fs = append(fs, f)
	}
	if f, ok := halfOpen(e); ok {
		fs = append(fs, f)
	}
	if f, ok := stale(e); ok {
		fs = append(fs, f)
	}
	if f, ok := noLivenessCheck(e); ok {
		fs = append(fs, f)
	}
	if f, ok := preparedOnce(e); ok {
		fs = append(fs, f)
	}
	if f, ok := connectOutlastsWait(e); ok {
		fs = append(fs, f)
	}
	return fs
}

package profiler

import (
	"fmt"
	"time"
)

// The findings about single phases of the creates that went well. Each looks at how the phase's times are spread, because the cause shows
// there: a timer's round value in a few, or in all of them.

func phaseFindings(e *EndpointReport) (fs []Finding) {
	if e.Role != RolePool.String() {
		return nil
	}
	for _, find := range []func(*EndpointReport) (Finding, bool){createIsOneBlock, hookIsSlow, resolverTimeouts, connectRetried, greetIsLate, verifyIsSlow, authComputes} {
		if f, ok := find(e); ok {
			fs = append(fs, f)
		}
	}
	return fs
}

func (e *EndpointReport) phase(p Phase) *Distribution { return e.Distribution(Measure(p), OK) }

// enoughOfAPhase is how many creates had a phase before its share of all of them means something.
const enoughOfAPhase = 10

// createIsOneBlock: nobody saw a create's parts, so that its duration says less than it could.
func createIsOneBlock(e *EndpointReport) (Finding, bool) {
	all, other := e.Distribution(MeasureCreate, OK), e.phase(Other)
	if all == nil || other == nil || other.Count != all.Count || other.Sum != all.Sum {
		return Finding{}, false
	}
	return Finding{
		ID: "create_opaque", Severity: "info", Subject: e.Address, Title: "what making a connection takes is known as a whole only",
		Evidence: fmt.Sprintf("%d creates took %s each at the median; resolve, connect, TLS and login are in there, and are not told apart",
			all.Count, round(all.Quantile(0.5))),
		Advice: "give the driver a handshake.Dialer, if it has a hook for one (lib/pq: Connector.Dialer; go-sql-driver/mysql: Config.DialFunc, or " +
			"mysqlprof)",
	}, true
}

// hookIsSlow: the user's own code takes most of the creates' time.
func hookIsSlow(e *EndpointReport) (Finding, bool) {
	h, c := e.phase(Hook), e.Distribution(MeasureCreate, OK)
	if h == nil || c == nil || h.Count < enoughOfAPhase || h.Quantile(0.5) < 10*time.Millisecond || h.Sum < c.Sum-h.Sum {
		return Finding{}, false
	}
	return Finding{
		ID: "hook_slow", Severity: "warning", Subject: e.Address, Title: "the program's own code takes most of the time until a connection is ready",
		Evidence: fmt.Sprintf("%s of the %s that %d creates took, %s each at the median",
			round(h.Sum), round(c.Sum), c.Count, round(h.Quantile(0.5))),
		Advice: "let it keep what it fetches (a token, a secret) until shortly before that expires, and fetch the next one in the background",
	}, true
}

// resolverTimeouts: look-ups that took as long as a resolver waits for an answer before it asks again: 5 s in glibc (resolv.conf(5),
// RES_TIMEOUT) and in Go's own resolver (net/dnsconfig_unix.go).
func resolverTimeouts(e *EndpointReport) (Finding, bool) {
	const timeout = 4900 * time.Millisecond
	d := e.phase(Resolve)
	if d == nil {
		return Finding{}, false
	}
	n := d.over(timeout)
	if n == 0 {
		return Finding{}, false
	}
	return Finding{
		ID: "resolver_timeout", Severity: "warning", Subject: e.Address, Title: "look-ups of the name ran into the resolver's time-out",
		Evidence: fmt.Sprintf("%d of %d took about 5 s or more, the median is %s", n, d.Count, round(d.Quantile(0.5))),
		Advice: "answers get lost on the way (often one of the A and AAAA that are asked for at once): end the name with a dot or lower ndots, " +
			"use a cache on the node, or the options single-request-reopen or use-vc; the network to the database is not the cause",
	}, true
}

// connectRetried: connects that took as long as TCP waits before it sends a SYN again: 1 s (RFC 6298 §2), where the others show that the
// way is short.
func connectRetried(e *EndpointReport) (Finding, bool) {
	const timeout = 980 * time.Millisecond
	d := e.phase(Connect)
	if d == nil || d.Count < enoughOfAPhase || d.Quantile(0.5) > timeout/4 {
		return Finding{}, false
	}
	n := d.over(timeout)
	if n == 0 {
		return Finding{}, false
	}
	return Finding{
		ID: "connect_retried", Severity: "warning", Subject: e.Address, Title: "connects took as long as TCP waits before it asks again",
		Evidence: fmt.Sprintf("%d of %d took 1 s or more, the median is %s", n, d.Count, round(d.Quantile(0.5))),
		Advice: "look for lost SYNs: a listen queue of the server's that overflows when many connect at once (its backlog, net.core.somaxconn), " +
			"a full table of connections in a firewall, packet loss; fewer new connections help in any case",
	}, true
}

// greetIsLate: TCP connects at once, but the first word comes much later than the way there and back can explain.
func greetIsLate(e *EndpointReport) (Finding, bool) {
	g, c := e.phase(Greet), e.phase(Connect)
	if g == nil || c == nil || g.Count < enoughOfAPhase {
		return Finding{}, false
	}
	greet, connect := g.Quantile(0.5), c.Quantile(0.5)
	if greet < 50*time.Millisecond || greet < 20*connect {
		return Finding{}, false
	}
	return Finding{
		ID: "greet_late", Severity: "warning", Subject: e.Address, Title: "the server's first word comes long after TCP is connected",
		Evidence: fmt.Sprintf("%s at the median (at least %s), where connecting took %s", round(greet), round(g.Min), round(connect)),
		Advice: "who accepted may not be the database: a proxy or a service mesh that connects onwards, or waits to detect a protocol in which " +
			"the server speaks first (10 s are usual: declare the port opaque); or the server looks the client's name up (MySQL: skip_name_resolve)",
	}, true
}

package main

import (
	"time"

	"github.com/connprof/connprof/profiler"
)

// result is what one variant's samples and profilers come to.
type result struct {
	*variant
	build, first, total, reused, prepared summary

	pool, monitor creates       // of the fresh clients
	query         time.Duration // mean of profiler.MeasureFirstQuery: the first query without the connecting
	version       string        // of TLS, "" without
	amortised     *profiler.Amortisation
}

// creates says where the making of connections spent its time, over all of one role.
type creates struct {
	connections int64
	sum         time.Duration
	parts       []part // in the order of profiler.Phase; they sum to sum
	p50, tlsP50 time.Duration
}

type part struct {
	phase profiler.Phase
	sum   time.Duration
}

// mean spreads sum over the connections.
func (c creates) mean(sum time.Duration) time.Duration {
	if c.connections == 0 {
		return 0
	}
	return sum / time.Duration(c.connections)
}

// phase is the mean time in p, 0 if it never began.
func (c creates) phase(p profiler.Phase) time.Duration {
	for _, part := range c.parts {
		if part.phase == p {
			return c.mean(part.sum)
		}
	}
	return 0
}

func results(vs []*variant) []result {
	var rs []result
	for _, v := range vs {
		rs = append(rs, v.result())
	}
	return rs
}

func (v *variant) result() result {
	fresh, warm := v.fresh.Report(), v.warm.Report()
	r := result{
		variant: v, build: summarise(v.build), first: summarise(v.first), total: summarise(v.total),
		reused: summarise(v.reused), prepared: summarise(v.prepared),
		pool: createsOf(fresh, profiler.RolePool), monitor: createsOf(fresh, profiler.RoleMonitor),
		version: tlsVersion(fresh),
	}
	first := merged(fresh, profiler.RolePool, profiler.MeasureFirstQuery)
	r.query = first.Mean()
	if v.tlsOptional {
		v.tls = r.version != ""
	}
	if again := merged(warm, profiler.RolePool, profiler.MeasureReusedQuery); again.Count > 0 && r.pool.connections > 0 {
		r.amortised = profiler.Amortise(r.pool.p50+r.monitor.p50, r.pool.tlsP50+r.monitor.tlsP50, first.Quantile(0.5), again.Quantile(0.5))
	}
	return r
}

// createsOf adds up the endpoints: a replica set has several.
func createsOf(r profiler.Report, role profiler.Role) creates {
	total := merged(r, role, profiler.MeasureCreate)
	c := creates{connections: int64(total.Count), sum: total.Sum, p50: total.Quantile(0.5)}
	c.tlsP50 = merged(r, role, profiler.Measure(profiler.TLS)).Quantile(0.5)
	for phase := range profiler.Phases {
		p := part{phase: phase}
		present := false
		for _, e := range r.Endpoints {
			for _, share := range e.Breakdown {
				if e.Role == role.String() && share.Phase == phase.String() {
					p.sum += share.Sum
					present = true
				}
			}
		}
		if present {
			c.parts = append(c.parts, p)
		}
	}
	return c
}

// merged is the distribution of what went well, over all endpoints.
func merged(r profiler.Report, role profiler.Role, m profiler.Measure) *profiler.Distribution {
	var d profiler.Distribution
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Role == role.String() {
			d.Merge(e.Distribution(m, profiler.OK))
		}
	}
	return &d
}

// tlsVersion is the one that most handshakes agreed on.
func tlsVersion(r profiler.Report) string {
	counts, best := make(map[string]int64), ""
	for _, e := range r.Endpoints {
		for name, n := range e.TLS.Versions {
			if counts[name] += n; best == "" || counts[name] > counts[best] {
				best = name
			}
		}
	}
	return best
}

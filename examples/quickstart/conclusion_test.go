package main

import (
	"strings"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

const ms = time.Millisecond

func sampled(mean time.Duration) summary {
	return summary{n: 200, mean: mean, p50: mean, p95: mean, margin: mean / 100}
}

// connecting is n connections with the given mean TLS and connect times.
func connecting(n int64, tls, connect time.Duration) creates {
	c := creates{connections: n, sum: time.Duration(n) * (tls + connect), p50: tls + connect, tlsP50: tls}
	c.parts = append(c.parts, part{profiler.Connect, time.Duration(n) * connect})
	if tls > 0 {
		c.parts = append(c.parts, part{profiler.TLS, time.Duration(n) * tls})
	}
	return c
}

func made(system string, tls bool, first, reused time.Duration, pool, monitor creates) *result {
	r := &result{
		variant: &variant{system: system, tls: tls}, build: sampled(ms / 100), first: sampled(first), total: sampled(first + ms/100),
		reused: sampled(reused), pool: pool, monitor: monitor, query: ms,
	}
	r.amortised = profiler.Amortise(pool.p50+monitor.p50, pool.tlsP50+monitor.tlsP50, ms, reused)
	return r
}

func TestConclusions(t *testing.T) {
	none := creates{}
	mysqlOff := made("mysql", false, 2*ms, ms, connecting(200, 0, ms), none)
	mysqlOn := made("mysql", true, 5*ms, ms, connecting(200, 3*ms, ms), none)
	mongoOff := made("mongodb", false, 3*ms, ms, connecting(200, 0, ms), connecting(200, 0, ms))
	mongoOn := made("mongodb", true, 8*ms, ms, connecting(200, 2*ms, ms), connecting(200, 3*ms, ms))
	dearer := made("mysql", true, 5*ms, 2*ms, connecting(200, 3*ms, ms), none)

	for _, test := range []struct {
		name  string
		pair  pair
		wants []string // one a sentence
	}{
		{"mysql pays TLS once", pair{mysqlOff, mysqlOn}, []string{
			"takes 5.01 ms instead of 2.01 ms (×2.5): TLS adds 3.00 ms, and 3.00 ms is what the handshake takes.",
			"1.00 ms without TLS and 1.00 ms with it, no more as far as 200 queries can tell",
			"If 10 queries share a connection, TLS is 21 % of the time of each, with 100 it is 2.9 %, with 1,000 it is 0.3 %.",
		}},
		{"mongodb pays TLS twice, once inside server selection", pair{mongoOff, mongoOn}, []string{
			"A cold client pays TLS twice: its first answer takes 8.01 ms instead of 3.01 ms (×2.7), and it waited for two handshakes, " +
				"3.00 ms on the heartbeat connection, inside server selection, and 2.00 ms on the pool's.",
			"no more as far as", "If 10 queries",
		}},
		{"a dearer reused query is said to be", pair{mysqlOff, dearer}, []string{
			"", "1.00 ms or 100 % more, where connecting with TLS costs 3.00 ms more, once.", "",
		}},
		{"TLS alone", pair{nil, mongoOn}, []string{
			"A cold client pays TLS twice: of the 8.01 ms to its first answer it waited for two handshakes",
			"takes 1.00 ms: the first one costs as much as 8.0 of them.", "If 10 queries",
		}},
		{"plain alone", pair{mysqlOff, nil}, []string{
			"the longest phase of connecting is connect, 1.00 ms.", "as much as 2.0 of them.", "if 100 share one, each costs 1.01 ms.",
		}},
		{"nothing", pair{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := conclusions(test.pair)
			if len(got) != len(test.wants) {
				t.Fatalf("%d sentences, want %d: %q", len(got), len(test.wants), got)
			}
			for i, want := range test.wants {
				if !strings.Contains(got[i], want) {
					t.Errorf("sentence %d is %q, want %q in it", i+1, got[i], want)
				}
			}
		})
	}
}

func TestConclusionsAreFewerWhereThingsWereNotMeasured(t *testing.T) {
	r := &result{variant: &variant{system: "mysql", tls: true}, total: sampled(5 * ms)}
	if got := conclusions(pair{on: r}); len(got) != 1 {
		t.Errorf("got %q, want one sentence", got)
	}
}

package accuracy

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// pairs are n connections whose measured times all begin a quarter of off before the packets' and end the rest after them.
func pairs(n int, off time.Duration) (ms []measured, ts []truth) {
	const ms1 = time.Millisecond
	took := func(d, off time.Duration) span {
		return span{begin: time.Second - off/4, end: time.Second + d + off - off/4}
	}
	for i := range n {
		of := func(off time.Duration) (s [9]span) {
			for k := range s {
				s[k] = took(time.Duration(k+1)*ms1, off)
			}
			return s
		}
		p, q, twice := of(0), of(off), of(2*off)
		t := truth{client: 40000 + i, server: "3306", connect: p[0], tls: p[1], auth: p[2], queries: p[3:6], greet: p[6], verify: p[7]}
		m := measured{client: t.client, server: t.server, connect: q[0], tls: q[1], auth: q[2], wire: q[3:6], greet: q[6], verify: q[7],
			rtt: q[0].took(), api: twice[3:6]}
		ms, ts = append(ms, m), append(ts, t)
	}
	return ms, ts
}

func TestTheMedianDecidesEitherWay(t *testing.T) {
	for _, tt := range []struct {
		off  time.Duration
		want string // the phases whose bound is broken
	}{
		{20 * time.Microsecond, ""},
		{-20 * time.Microsecond, ""},
		{21 * time.Microsecond, "connect by the kernel's RTT"},
		{-41 * time.Microsecond, "connect by the kernel's RTT, HelloWritten → Finished, verify, auth, first query, wire, first query, API, " +
			"reused query, wire, reused query, API"},
	} {
		ms, ts := pairs(20, tt.off)
		ms[0].auth.end += time.Second // one outlier is none of the median's business
		c := compare(ms, ts, onLoopback)
		var broken []string
		for _, r := range c.rows {
			if r.broken() {
				broken = append(broken, r.phase)
			}
		}
		if got := strings.Join(broken, ", "); got != tt.want || c.broken() != (tt.want != "") {
			t.Errorf("%v off: broken %v: %s; want %s", tt.off, c.broken(), got, tt.want)
		}
	}
}

func TestConnectionsThatCanNotBeComparedAreCounted(t *testing.T) {
	ms, ts := pairs(100, 0)
	ms[0].client = 1
	ts[1].retransmitted = true
	ts = append(ts, ts[2]) // twice in the capture
	ts[3].queries = ts[3].queries[:2]
	ms[4].server = "5432"
	c := compare(ms, ts, onLoopback)
	want := map[string]int{
		"not being whole in the capture": 3, "retransmissions": 1, "another number of queries": 1,
	}
	if !reflect.DeepEqual(c.left, want) || c.compared != 95 || c.broken() {
		t.Errorf("left out %v, %d compared, broken %v", c.left, c.compared, c.broken())
	}
	ts[5].retransmitted = true
	if c := compare(ms, ts, onLoopback); c.complete() || !c.broken() {
		t.Errorf("%d of %d compared are said to be enough", c.compared, c.made)
	}
	if c := compare(nil, nil, onLoopback); !c.broken() {
		t.Error("nothing measured, and no bound is broken")
	}
}

func TestAPortUsedAgainIsComparedInOrder(t *testing.T) {
	ms, ts := pairs(20, 0)
	for i := range ms {
		ms[i].client, ts[i].client = 40000, 40000
		ms[i].auth.end += time.Duration(i)
		ts[i].auth.end += time.Duration(i)
	}
	c := compare(ms, ts, onLoopback)
	if auth := c.rows[5].differences; c.compared != 20 || quantile(auth, 0) != 0 || quantile(auth, 1) != 0 {
		t.Errorf("%d compared, left out %v, differences %v", c.compared, c.left, auth)
	}
}

func TestQuantileIsTheNearestRank(t *testing.T) {
	d := []time.Duration{5, 3, 1, 4, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.05: 1, 0.5: 3, 0.95: 5, 1: 5} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestTheTableSaysWhatIsBroken(t *testing.T) {
	ms, ts := pairs(20, 30*time.Microsecond)
	ts[0].retransmitted, ts[1].retransmitted = true, true
	bare, packets := pairs(1, 35*time.Microsecond)
	bare[0].client, packets[0].client, bare[0].bare = 1, 1, true
	ms, ts = append(ms, bare...), append(ts, packets...)
	var b strings.Builder
	compare(ms, ts, onLoopback).write(&b, "MySQL, loopback")
	const want = `
MySQL, loopback: 19 of 21 connections compared, 2 left out for retransmissions: TOO FEW
µs                               n   packets │       p5   median      p95      max │    early     late │ bound
connect                         18    1000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │   200 ok
connect by the kernel's RTT     18    1000.0 │     30.0     30.0     30.0     30.0 │        -        - │    20 BROKEN
greet                           18    7000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │   200 ok
HelloWritten → Finished         18    2000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │    40 ok
verify                          18    8000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │    40 ok
auth                            18    3000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │    40 ok
first query, wire               18    4000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │    40 ok
first query, API                18    4000.0 │     60.0     60.0     60.0     60.0 │     15.0     45.0 │    90 ok
reused query, wire              36    6000.0 │     30.0     30.0     30.0     30.0 │      7.5     22.5 │    40 ok
reused query, API               36    6000.0 │     60.0     60.0     60.0     60.0 │     15.0     45.0 │    90 ok
without connprof: first          1    4000.0 │     70.0     70.0     70.0     70.0 │     17.5     52.5 │     -
without connprof: reused         2    6000.0 │     70.0     70.0     70.0     70.0 │     17.5     52.5 │     -
`
	if b.String() != want {
		t.Errorf("got%s\nwant%s", b.String(), want)
	}
}

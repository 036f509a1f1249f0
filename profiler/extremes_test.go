package profiler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// negatives are the paths of what is below zero in a report as it is encoded.
func negatives(t *testing.T, v any) (paths []string) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case json.Number:
			if strings.HasPrefix(v.String(), "-") {
				paths = append(paths, path+" "+v.String())
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e)
			}
		case map[string]any:
			for k, e := range v {
				walk(path+"."+k, e)
			}
		}
	}
	walk("", tree)
	return paths
}

// fill sets all whole numbers in v, and in what v holds, to n.
func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		if v.CanSet() {
			v.SetInt(n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[time.Time]() && v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.ValueOf(n))
		}
	}
}

func TestSubOfTheWrongReportsIsNothingAndNeverNegative(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p, q Profiler
		stats := PoolStats{MaxOpen: 3, WaitCount: 7, WaitDuration: time.Second, IdleLimitClosed: 2, IdleTimeClosed: 1, LifetimeClosed: 4,
			MakingWaitCount: 3, MakingWaitDuration: time.Second, Timeouts: 2, TimeoutsKnown: true, Cleared: 1, Abandoned: 5, AwaitedHeartbeats: 6}
		p.WatchPool("a", func() PoolStats { return stats })
		q.WatchPool("a", func() PoolStats { return PoolStats{} })
		scripted(&p)
		early := p.Report()
		pass(time.Minute)
		scripted(&p)
		p.NewConn(Endpoint{System: "mysql", Address: "late:3306"}, RolePool).Ready(NoCaller)
		stats = stats.add(stats)
		late := p.Report()
		scripted(&q)
		huge := func() Report {
			r := p.Report()
			fill(reflect.ValueOf(&r).Elem(), math.MaxInt64)
			return r
		}
		for name, r := range map[string]Report{
			"the later from the earlier":  early.Sub(late),
			"one profiler's from another": q.Report().Sub(late),
			"all from an empty one":       Report{}.Sub(late),
			"the largest from others":     late.Sub(huge()),
			"others from the largest":     huge().Sub(late),
			"the largest from itself":     huge().Sub(huge()),
		} {
			if bad := negatives(t, r); len(bad) > 0 {
				t.Errorf("%s: %v", name, bad)
			}
			for line := range strings.Lines(r.String()) {
				if strings.Contains(line, " -") {
					t.Errorf("%s: %s", name, line)
				}
			}
		}
		r := early.Sub(late)
		for i := range r.Endpoints {
			if e := &r.Endpoints[i]; e.Created+e.Failed+e.Closed != 0 || len(e.Measures)+len(e.Failures)+len(e.ClosedBy)+len(e.FailedIn) != 0 {
				t.Errorf("the later from the earlier: %+v", e)
			}
		}
		if len(early.Sub(Report{}).Endpoints) != len(early.Endpoints) || early.Sub(Report{}).String() != early.String() {
			t.Error("without what was not there it is another")
		}
		if e := late.Sub(early).Endpoint("late:3306", RolePool); e == nil || e.Created != 1 {
			t.Errorf("an endpoint that came later: %+v", e)
		}
	})
}

// What a decoded report lacks is not known of its differences.
func TestSubOfDecodedReportsLeavesOutWhatItCannotKnow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		decoded := func(r Report) (back Report) {
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			return back
		}
		var p Profiler
		scripted(&p)
		c := p.NewConn(Endpoint{System: "mysql", Address: "db.example:3306"}, RolePool)
		c.Update(func(cr *Create) { cr.TCP.Known, cr.TCP.RTT = true, time.Millisecond })
		c.Ready(NoCaller)
		early := p.Report()
		scripted(&p)
		late := p.Report()
		exact := late.Sub(early)
		for name, r := range map[string]Report{
			"earlier": late.Sub(decoded(early)), "later": decoded(late).Sub(early), "both": decoded(late).Sub(decoded(early)),
			"only in one": decoded(late).Sub(Report{}),
		} {
			want := exact
			if name == "only in one" {
				want = late
			}
			for i := range r.Endpoints {
				e, w := &r.Endpoints[i], &want.Endpoints[i]
				if e.Created != w.Created || e.Failed != w.Failed || e.TLS.Handshakes != w.TLS.Handshakes {
					t.Errorf("%s: counters %+v, want %+v", name, e, w)
				}
				if len(e.Measures)+len(e.Breakdown) > 0 || e.Amortisation != nil || e.RTT != 0 || e.RTTs != 0 {
					t.Errorf("%s: knows %v %v %v, RTT %v of %d", name, e.Measures, e.Breakdown, e.Amortisation, e.RTT, e.RTTs)
				}
			}
		}
	})
}

func TestADistributionSurvivesJSON(t *testing.T) {
	var one, wide, none Distribution
	h := new(lazyHistogram)
	h.record(time.Millisecond)
	h.addTo(&one)
	h = new(lazyHistogram)
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, 953, 954, time.Millisecond, 256 * time.Second, 257 * time.Second, math.MaxInt64, math.MaxInt64} {
		h.record(d)
	}
	h.addTo(&wide)
	most := Distribution{Count: math.MaxUint64, Sum: math.MaxInt64, Max: math.MaxInt64}
	most.buckets[0], most.buckets[numBuckets-1] = 1, math.MaxUint64-1
	for name, d := range map[string]*Distribution{"one": &one, "all": &wide, "none": &none, "the most": &most} {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(name, err)
		}
		back := Distribution{Count: 3, buckets: [numBuckets]uint64{3}}
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(name, err)
		}
		if back != *d {
			t.Errorf("%s: %s is read as something else", name, b)
		}
		for _, q := range []float64{0, 0.5, 1} {
			if back.Quantile(q) != d.Quantile(q) {
				t.Errorf("%s: quantile %g is %v, was %v", name, q, back.Quantile(q), d.Quantile(q))
			}
		}
	}
	if wide.Sum != math.MaxInt64 || wide.Min != 0 || wide.Max < math.MaxInt64-1 || wide.Mean() != math.MaxInt64/11 {
		t.Errorf("sum %d, least %d, most %d, mean %d", wide.Sum, wide.Min, wide.Max, wide.Mean())
	}
	for _, bad := range []string{
		`{"count":2,"scale":4,"zero":0,"offset":0,"counts":[1]}`,
		`{"count":1,"scale":3,"zero":0,"offset":0,"counts":[1]}`,
		`{"count":1,"scale":4,"zero":0,"offset":-321,"counts":[1]}`,
		`{"count":1,"scale":4,"zero":0,"offset":128,"counts":[0,1]}`,
		`{"count":1,"scale":4,"zero":0,"offset":9223372036854775807,"counts":[1]}`,
		`{"count":1,"scale":4,"zero":2,"offset":0,"counts":[18446744073709551615]}`,
		`{"count":-1}`, `[]`, `{"count":1,"min_ns":2,"max_ns":1,"scale":4,"zero":1}`,
		`{"count":1,"sum_ns":-5,"scale":4,"zero":1}`,
	} {
		d := one
		if err := json.Unmarshal([]byte(bad), &d); err == nil || d != one {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSumsStopAtTheLargestDuration(t *testing.T) {
	var h histogram
	h.emptied = map[int]*emptied{}
	for i := range numBuckets - 1 {
		h.emptied[i] = &emptied{count: 1, sum: math.MaxInt64} // an odd number of them: the sum wraps around to what is not negative
	}
	h.extreme(math.MaxInt64)
	var d Distribution
	h.addTo(&d)
	if d.Sum != math.MaxInt64 {
		t.Errorf("the sum is %d", d.Sum)
	}
	for i := range h.emptied {
		h.emptied[i] = &emptied{count: 1 << 56}
	}
	h.addTo(&d)
	if d.Sum != math.MaxInt64 {
		t.Errorf("the sum of %d is %d", d.Count, d.Sum)
	}
	var p Profiler
	for range 2 {
		c := p.NewConn(Endpoint{System: "mysql", Address: "db:1"}, RolePool)
		c.Ready(NoCaller)
		c.CheckedOut(NoCaller, math.MinInt64, math.MaxInt64)
		o := c.Begin(NoCaller, OpQuery, math.MinInt64)
		o.Driver, o.Consumer = math.MaxInt64, math.MaxInt64
		o.Responded(NoCaller, -1, nil)
		o.End(NoCaller, math.MaxInt64, nil)
		c.CheckedIn(math.MinInt64)
		c.PreparedFor(math.MaxInt64)
		c.Checked(math.MinInt64)
		c.ClosedAt(math.MaxInt64, CloseIdleTime, nil)
	}
	for range 2 {
		p.WatchPool("p", func() PoolStats {
			return PoolStats{MaxOpen: math.MaxInt, WaitCount: math.MaxInt64, WaitDuration: math.MaxInt64}
		})
	}
	r := p.Report()
	if bad := negatives(t, r); len(bad) > 0 {
		t.Error(bad)
	}
	if text := r.String(); strings.Contains(text, " -") {
		t.Error(text)
	}
}

func TestAmortisationOfExtremes(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, a := range []*Amortisation{
		Amortise(most, most, most, most), Amortise(most, most, 0, 1), Amortise(most, 1, most, most), Amortise(0, most, 0, 1),
		Amortise(0, 0, 0, 0), Amortise(-most, -most, -most, -most), Amortise(most, most, -most, 0),
	} {
		for _, row := range a.Rows {
			if row.Cost < 0 && a.Create >= 0 || row.TLSShare < 0 && a.TLS > 0 || math.IsNaN(row.TLSShare) || math.IsInf(row.TLSShare, 0) {
				t.Errorf("%+v: %+v", a, row)
			}
		}
		if a.Below1 < 0 || a.Below5 < 0 || a.Below1 > 0 && a.Below1 < a.Below5 {
			t.Errorf("%+v", a)
		}
	}
	if got := Amortise(most, most, most, most).Cost(1000); got != most {
		t.Errorf("cost %d", got)
	}
}

// A pool whose address is not known has no heartbeats of another's.
func TestAmortisationTakesNoOthersHeartbeats(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		monitor := p.NewConn(Endpoint{System: "mongodb", Address: "other:27017"}, RoleMonitor)
		pass(time.Hour)
		monitor.Ready(NoCaller)
		c := p.NewConn(Endpoint{System: "mongodb"}, RolePool)
		pass(time.Millisecond)
		c.Ready(NoCaller)
		for range 2 {
			op(NoCaller, c, OpQuery, time.Millisecond, 0, nil)
		}
		if a := p.Report().Endpoint("", RolePool).Amortisation; a == nil || a.Create > 2*time.Millisecond {
			t.Errorf("%+v", a)
		}
	})
}

func TestAReportOfAThousandEndpoints(t *testing.T) {
	const n = 1000
	p := Profiler{MaxEndpoints: n}
	for i := range n + 5 {
		c := p.NewConn(Endpoint{System: "mongodb", Address: fmt.Sprintf("db%04d:27017", i)}, RolePool)
		c.Ready(NoCaller)
		op(NoCaller, c, OpQuery, 0, 0, nil)
		c.use.holding.set(held, 1, Now()-Instant(time.Hour))
		p.NewConn(Endpoint{System: "mongodb", Address: fmt.Sprintf("db%04d:27017", i)}, RoleMonitor).Ready(NoCaller)
	}
	begin := time.Now()
	r := p.Report()
	text := r.String()
	interval := r.Sub(r)
	t.Logf("%d bytes of text in %v", len(text), time.Since(begin))
	if got := strings.Count(text, "(pool)\n"); got != n+1 || len(r.Endpoints) != 2*(n+1) || len(interval.Endpoints) != len(r.Endpoints) {
		t.Errorf("%d pools in the text, %d endpoints", got, len(r.Endpoints))
	}
	if r.Dropped.Endpoints != 10 || !strings.Contains(text, `10 connections counted under "(other)"`) {
		t.Errorf("%+v", r.Dropped)
	}
	held := int64(0)
	for i := range r.Endpoints {
		held += r.Endpoints[i].HeldIdle
	}
	if held != n+5 {
		t.Errorf("%d held, want %d", held, n+5)
	}
}

// Whether a failure is later than a report must not depend on a wall clock that was set in between.
func TestFailuresCarryTheMonotonicClock(t *testing.T) {
	var p Profiler
	p.NewConn(Endpoint{System: "mysql", Address: "db:1"}, RolePool).Fail(NoCaller, errFailed)
	if f := p.Report().Failures[0]; !strings.Contains(f.At.String(), " m=") {
		t.Errorf("%v has no monotonic reading", f.At)
	}
}

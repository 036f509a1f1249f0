package profiler

import (
	"context"
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

// last is the last event of a kind.
func (r *recorder) last(k Kind) (e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, have := range r.events {
		if have.Kind == k {
			e = have
		}
	}
	return e
}

// ready makes a connection in no time.
func ready(sinks ...Sink) (*Profiler, *Conn) {
	p := &Profiler{Sinks: sinks}
	c := p.NewConn(orders, RolePool)
	c.Ready(noContext)
	return p, c
}

// counts is how often a measure was recorded and its sum, over all outcomes.
func counts(p *Profiler, m Measure) (n uint64, sum time.Duration) {
	r := p.Report()
	for o := range numOutcomes {
		if d := r.Endpoint("", RolePool).Distribution(m, o); d != nil {
			n, sum = n+d.Count, sum+d.Sum
		}
	}
	return n, sum
}

func wantMeasure(t *testing.T, p *Profiler, m Measure, n uint64, sum time.Duration) {
	t.Helper()
	if gotN, got := counts(p, m); gotN != n || got != sum {
		t.Errorf("%v: %d, %v in all; want %d, %v", m, gotN, got, n, sum)
	}
}

func TestTheFirstOperationIsFirstAndTheOthersAreReused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p, c := ready(&r)
		ctx := context.Background()
		own := errors.New("duplicate key")
		op(ctx, c, OpQuery, 5*ms, 2*ms, nil)
		op(ctx, c, OpExec, 3*ms, 0, own)
		op(ctx, c, OpQuery, 1*ms, 1*ms, nil)
		wantMeasure(t, p, MeasureFirstQuery, 1, 5*ms)
		wantMeasure(t, p, MeasureReusedQuery, 2, 4*ms)
		wantMeasure(t, p, MeasureRows, 2, 3*ms)
		if c.Ops() != 3 || r.count(KindFirstResponse) != 3 || r.count(KindOperation) != 3 {
			t.Errorf("%d operations, events %v", c.Ops(), r.kinds())
		}
		o := r.events[3].Op // create, first response, operation, first response
		if o.N != 2 || o.Kind != OpExec || o.Err != own || o.Outcome != Failed || !o.End.IsZero() || o.FirstResponse.Sub(o.Start) != 3*ms {
			t.Errorf("the first response of the second says %+v", o)
		}
		o = r.last(KindOperation).Op
		if o.N != 3 || o.End.Sub(o.Start) != 2*ms || !o.End.Equal(time.Now()) || o.WaitKnown || !o.Asked.IsZero() {
			t.Errorf("the last operation says %+v", o)
		}
	})
}

func TestWholeOperationsAreCollectedOnceAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, c := ready()
		ctx := context.Background()
		op(ctx, c, OpQuery, 5*ms, 2*ms, nil)
		wantMeasure(t, p, MeasureOperation, 0, 0)
		p.CollectOperations()
		op(ctx, c, OpQuery, 5*ms, 2*ms, nil)
		op(ctx, c, OpExec, 3*ms, 0, errors.New("duplicate key"))
		o := c.Begin(ctx, OpQuery, Now())
		pass(ms)
		o.Hold(Now())
		pass(ms)
		o.GiveUp(ctx, context.Canceled)
		excluded := c.Begin(ctx, OpCommand, Now())
		pass(ms)
		excluded.Exclude(Now())
		p.Disable()
		op(ctx, c, OpQuery, ms, ms, nil)
		wantMeasure(t, p, MeasureOperation, 3, 11*ms)
		r := p.Report()
		for o, want := range map[Outcome]uint64{OK: 1, Failed: 1, Canceled: 1} {
			if d := r.Endpoints[0].Distribution(MeasureOperation, o); d == nil || d.Count != want {
				t.Errorf("%v: %+v, want %d", o, d, want)
			}
		}
	})
}

// An operation whose first response is its end is recorded once, and counts in both measures.
func TestAWholeOperationWithoutRowsCountsInBothMeasures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, c := ready()
		p.CollectOperations()
		for _, d := range []time.Duration{3 * ms, 4 * ms, 5 * ms} {
			o := c.Begin(context.Background(), OpExec, Now())
			pass(d)
			o.End(context.Background(), Now(), nil)
		}
		wantMeasure(t, p, MeasureFirstQuery, 1, 3*ms)
		wantMeasure(t, p, MeasureReusedQuery, 2, 9*ms)
		wantMeasure(t, p, MeasureOperation, 3, 12*ms)
	})
}

func TestAnOperationIsReportedOnceAtEachEnd(t *testing.T) {
	var r recorder
	_, c := ready(&r)
	ctx := context.Background()
	o := c.Begin(ctx, OpQuery, Now())
	o.Responded(ctx, Now(), nil)
	o.Responded(ctx, Now(), errors.New("late"))
	o.End(ctx, Now(), nil)
	o.End(ctx, Now(), nil)
	o.Responded(ctx, Now(), nil)
	o.Exclude(Now())
	o.Skip(true)
	if r.count(KindFirstResponse) != 1 || r.count(KindOperation) != 1 || c.Ops() != 1 {
		t.Errorf("events %v, %d operations", r.kinds(), c.Ops())
	}
	if o := r.last(KindOperation).Op; o.Outcome != OK {
		t.Errorf("a late error counts: %+v", o)
	}
}

func TestAnInstantThatIsNotKnownStandsForNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p, c := ready(&r)
		o := c.Begin(noContext, OpQuery, 0)
		pass(ms)
		o.Responded(noContext, 0, nil)
		pass(ms)
		o.End(noContext, 0, nil)
		wantMeasure(t, p, MeasureFirstQuery, 1, ms)
		wantMeasure(t, p, MeasureRows, 1, ms)
		if c.Ops() != 1 {
			t.Errorf("%d operations", c.Ops())
		}
	})
}

func TestTheOutcomeIsThatOfTheContextWhereTheDriverHidesIt(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		want Outcome
	}{
		{"no error", context.Background(), nil, OK},
		{"no error, although canceled", canceled, nil, OK},
		{"the driver's own", context.Background(), errors.New("bad connection"), Failed},
		{"the driver's own, canceled", canceled, errors.New("bad connection"), Canceled},
		{"a deadline", context.Background(), context.DeadlineExceeded, Timeout},
	} {
		var r recorder
		_, c := ready(&r)
		op(tt.ctx, c, OpExec, 0, 0, tt.err)
		if o := r.last(KindOperation).Op; o.Outcome != tt.want || o.Err != tt.err {
			t.Errorf("%s: %v (%v), want %v", tt.name, o.Outcome, o.Err, tt.want)
		}
	}
}

func TestASkippedOperationNeverWas(t *testing.T) {
	for _, dead := range []bool{false, true} {
		var r recorder
		p, c := ready(&r)
		o := c.Begin(context.Background(), OpQuery, Now())
		o.Skip(dead)
		o.End(context.Background(), Now(), nil)
		stale := p.Report().Endpoint("", RolePool).Stale
		if c.Ops() != 0 || r.count(KindOperation)+r.count(KindFirstResponse) != 0 || (stale == 1) != dead {
			t.Errorf("dead %t: %d operations, events %v, %d stale", dead, c.Ops(), r.kinds(), stale)
		}
		op(context.Background(), c, OpQuery, 0, 0, nil)
		wantN, _ := counts(p, MeasureFirstQuery)
		if wantN != 1 {
			t.Errorf("dead %t: the next operation is not the first", dead)
		}
	}
}

func TestAnExcludedOperationIsCountedAndIsNoLatency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, c := ready()
		ctx := Asked(context.Background())
		pass(3 * ms)
		o := c.Begin(ctx, OpCommand, Now())
		o.Exclude(Now())
		op(context.Background(), c, OpCommand, ms, 0, nil)
		wantMeasure(t, p, MeasureFirstQuery, 0, 0)
		wantMeasure(t, p, MeasureReusedQuery, 1, ms)
		wantMeasure(t, p, MeasureWait, 1, 3*ms) // and not again for the second
		if e := p.Report().Endpoint("", RolePool); e.Excluded != 1 || c.Ops() != 2 {
			t.Errorf("%d excluded, %d operations", e.Excluded, c.Ops())
		}
	})
}

func TestOperationsWhileOffAreOnlyCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p, c := ready(&r)
		ctx := context.Background()
		c.CheckedOut(ctx, 0, Now())
		p.Disable()
		op(ctx, c, OpQuery, ms, ms, nil)
		o := c.Begin(ctx, OpCommand, Now())
		o.Exclude(Now())
		o = c.Begin(ctx, OpCommand, Now())
		o.Skip(true)
		c.CheckedIn(Now())
		pass(time.Hour)
		c.CheckedOut(ctx, 0, Now())
		p.Enable()
		op(ctx, c, OpQuery, ms, 0, nil)
		c.CheckedIn(Now())
		for _, m := range []Measure{MeasureFirstQuery, MeasureUse, MeasureIdle} {
			wantMeasure(t, p, m, 0, 0)
		}
		wantMeasure(t, p, MeasureReusedQuery, 1, ms)
		if e := p.Report().Endpoint("", RolePool); e.Excluded+e.Stale != 0 || r.count(KindOperation) != 1 || r.last(KindOperation).Op.N != 3 {
			t.Errorf("excluded %d, stale %d, events %v", e.Excluded, e.Stale, r.kinds())
		}
	})
}

package profiler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAReportSurvivesJSON(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		scripted(&p)
		r := p.Report()
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var back Report
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		again, err := json.MarshalIndent(back, "", "  ")
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("encoding it again gives something else (%v)", err)
		}
		if back.String() != r.String() {
			t.Error("its text differs")
		}
		if e := back.Endpoint("db.example:3306", RolePool); e.Measure(MeasureCreate, OK).Count != 3 || e.Amortisation == nil ||
			e.Distribution(MeasureCreate, OK) != nil {
			t.Errorf("read back: %+v", e)
		}
	})
}

func TestAnEmptyReportIsEmptyLists(t *testing.T) {
	for _, p := range []*Profiler{nil, new(Profiler)} {
		b, err := json.Marshal(p.Report())
		if err != nil || p != nil && !strings.Contains(string(b), `"endpoints":[]`) {
			t.Errorf("%s %v", b, err)
		}
		if got := p.Report().String(); got != "no connections\n" {
			t.Errorf("text %q", got)
		}
		p.Report().Sub(p.Report())
	}
	if (*EndpointReport)(nil).Measure(MeasureCreate, OK) != nil || (*EndpointReport)(nil).Distribution(MeasureUse, OK) != nil {
		t.Error("an endpoint that is not there has measures")
	}
}

func TestSubIsTheInterval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p, twice Profiler
		scripted(&p)
		first := p.Report()
		if none := first.Sub(first); true {
			e := none.Endpoint("db.example:3306", RolePool)
			if e.Created+e.Failed+e.Closed+e.ByCaller != 0 || len(e.Measures)+len(e.Breakdown)+len(none.Failures)+len(none.Findings) != 0 ||
				len(e.ClosedBy)+len(e.FailedIn)+len(e.TLS.Versions) != 0 || e.Amortisation != nil {
				t.Errorf("nothing happened, but %+v", none)
			}
		}
		pass(time.Second)
		scripted(&p)
		scripted(&twice)
		text := first.String()
		interval, alone := p.Report().Sub(first), twice.Report()
		if first.String() != text {
			t.Error("Sub changed the earlier report")
		}
		for _, role := range []Role{RolePool, RoleMonitor} {
			got, want := interval.Endpoint("", role), alone.Endpoint("", role)
			got.Live = want.Live
			got.dist, want.dist = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the interval says\n%+v, alone it is\n%+v", got, want)
			}
		}
		if !reflect.DeepEqual(interval.Findings, alone.Findings) || len(interval.Failures) != 2 {
			t.Errorf("findings %+v, %d failures", interval.Findings, len(interval.Failures))
		}
		if pool := interval.Pools[0]; pool.Opened != 1 || pool.WaitCount != 4 || pool.MaxOpen != 20 {
			t.Errorf("pool %+v", pool)
		}
	})
}

func TestTheMonitorsShareIsInTheAmortisationOfMongoDB(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		e := Endpoint{System: "mongodb", Address: "m:27017"}
		for _, role := range []Role{RoleMonitor, RolePool} {
			c := p.NewConn(e, role)
			pass(4 * ms)
			c.Cut(TLS, Now())
			c.Ready(noContext)
			op(context.Background(), c, OpCommand, ms, 0, nil)
			op(context.Background(), c, OpCommand, ms, 0, nil)
		}
		r := p.Report()
		a := r.Endpoint("", RolePool).Amortisation
		if a == nil || a.Create != 8*ms || a.TLS != 8*ms || r.Endpoint("", RoleMonitor).Amortisation != nil {
			t.Errorf("got %+v", a)
		}
	})
}

func TestEndpointsBeyondTheBoundShareOneAndAreCounted(t *testing.T) {
	p := Profiler{MaxEndpoints: 3}
	for i := range 20 {
		e := Endpoint{System: "mysql", Address: fmt.Sprint("host", i), Pool: "p"}
		c := p.NewConn(e, RolePool)
		if c.Endpoint() != e {
			t.Errorf("the connection forgot that it leads to %v", e)
		}
		c.Fail(noContext, io.EOF)
	}
	for i := range 20 {
		p.NewConn(Endpoint{System: fmt.Sprint("system", i), Address: "a"}, RolePool).Ready(noContext)
	}
	r := p.Report()
	if len(r.Endpoints) != 3+otherSystems+1 || r.Dropped.Endpoints != 37 {
		t.Errorf("%d endpoints, %d dropped", len(r.Endpoints), r.Dropped.Endpoints)
	}
	var n int64
	for _, e := range r.Endpoints {
		n += e.Created + e.Failed
	}
	if other := r.Endpoint("(other)", RolePool); n != 40 || other == nil {
		t.Errorf("%d of 40 connections are counted", n)
	}
}

func TestLiveConnectionsBeyondTheBoundAreMeasuredAndCounted(t *testing.T) {
	p := Profiler{MaxConns: 2}
	var cs []*Conn
	for range 5 {
		c := p.NewConn(orders, RolePool)
		c.Ready(noContext)
		cs = append(cs, c)
	}
	if r := p.Report(); len(p.Conns()) != 2 || r.Dropped.Conns != 3 || r.Endpoints[0].Live != 5 {
		t.Errorf("%d listed, %d dropped, %d live", len(p.Conns()), r.Dropped.Conns, r.Endpoints[0].Live)
	}
	for _, c := range cs {
		c.Closed(CloseError, nil)
	}
	if p.NewConn(orders, RolePool); len(p.Conns()) != 1 {
		t.Errorf("%d listed after all but one closed", len(p.Conns()))
	}
}

func TestTheLastFailuresAreKeptWithAdvice(t *testing.T) {
	var p Profiler
	for i := range maxFailures + 8 {
		c := p.NewConn(orders, RolePool)
		c.Update(func(cr *Create) { cr.Failed, cr.Cause = Greet, io.EOF })
		c.Fail(noContext, fmt.Errorf("failure %d", i))
	}
	fs := p.Report().Failures
	if len(fs) != maxFailures || fs[0].Error != "failure 8" || fs[maxFailures-1].Error != "failure 39" {
		t.Fatalf("%d kept, from %q to %q", len(fs), fs[0].Error, fs[len(fs)-1].Error)
	}
	if f := fs[0]; f.Phase != "greet" || f.Cause != "EOF" || !strings.Contains(f.Advice, "without a greeting") || f.Endpoint != orders {
		t.Errorf("got %+v", f)
	}
}

// A report may be taken at any time: under -race, nothing that a Conn's user writes is read by it.
func TestReportsMayBeTakenWhileConnectionsAreUsed(t *testing.T) {
	var r recorder
	p := Profiler{Sinks: []Sink{&r}}
	stop := p.WatchPool("x", func() PoolStats { return PoolStats{Open: 1} })
	ctx := context.Background()
	var users, readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for earlier := p.Report(); ; {
				select {
				case <-done:
					return
				default:
				}
				now := p.Report()
				for _, e := range now.Endpoints {
					if e.Live < 0 {
						t.Errorf("%d live", e.Live)
					}
				}
				_ = now.Sub(earlier).String()
				for _, c := range p.Conns() {
					c.Ops()
					c.Create()
					c.ReadyAt()
					c.Kind()
					c.Attached(1)
				}
			}
		})
	}
	for i := range 4 {
		users.Go(func() {
			for n := range 50 {
				c := p.NewConn(orders, RolePool)
				c.Cut(Connect, Now())
				if n%10 == 3 {
					c.Fail(ctx, io.EOF)
					continue
				}
				c.Ready(Asked(ctx))
				for range 20 {
					c.CheckedOut(Asked(ctx), 0, Now())
					op(ctx, c, OpQuery, 0, 0, nil)
					c.CheckedIn(0)
				}
				c.Attach(1, i)
				c.Closed(CloseIdleLimit, nil)
			}
		})
	}
	users.Wait()
	close(done)
	readers.Wait()
	stop()
	e := p.Report().Endpoint("", RolePool)
	if first, reused := e.Queries(); e.Created != 180 || e.Failed != 20 || e.Closed != 180 || e.Live != 0 || first != 180 || reused != 180*19 {
		t.Errorf("%d created, %d failed, %d closed, %d first, %d reused", e.Created, e.Failed, e.Closed, first, reused)
	}
	if r.count(KindCreate) != 200 || r.count(KindOperation) != 3600 || r.count(KindClose) != 180 {
		t.Errorf("reported %d creates, %d operations, %d closes", r.count(KindCreate), r.count(KindOperation), r.count(KindClose))
	}
}

package profiler

import (
	"context"
	"crypto/tls"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestObserversOfCreatesComeAndGo(t *testing.T) {
	var sink, a, b recorder
	p := Profiler{Sinks: []Sink{&sink}}
	create := func() *Conn { c := p.NewConn(orders, RolePool); c.Ready(context.Background()); return c }
	create()
	stopA := p.ObserveCreates(&a)
	c := create()
	stopB := p.ObserveCreates(&b)
	p.NewConn(orders, RolePool).Fail(noContext, errors.New("refused"))
	panicking := p.ObserveCreates(sinkFunc(func(context.Context, Event) { panic("theirs") }))
	op(context.Background(), c, OpExec, 0, 0, nil)
	c.Closed(CloseIdleTime, nil)
	p.Flush()
	if all := p.CreateObservers(); len(all) != 3 || all[0] != Sink(&a) || all[1] != Sink(&b) {
		t.Errorf("observers %v", all)
	}
	stopA()
	stopA()
	create()
	stopB()
	panicking()
	if all := p.CreateObservers(); len(all) != 0 || len((*Profiler)(nil).CreateObservers()) != 0 {
		t.Errorf("observers %v that were stopped", all)
	}
	create()
	if a.count(KindCreate) != 2 || len(a.kinds()) != 2 || b.count(KindCreate) != 2 || len(b.kinds()) != 2 || sink.count(KindCreate) != 5 {
		t.Errorf("a saw %v, b %v, the sink %v", a.kinds(), b.kinds(), sink.kinds())
	}
	if n := p.Report().SinkPanics; n != 1 {
		t.Errorf("%d panics", n)
	}
}

func TestHandshakesAreCountedByWhatTheyWereLike(t *testing.T) {
	var p Profiler
	shake := func(version uint16, resumed, retry, offered bool) {
		c := p.NewConn(orders, RolePool)
		c.Update(func(cr *Create) {
			cr.TLS = TLSInfo{Seen: true, Done: true, Version: version, Resumed: resumed, HelloRetry: retry, ResumptionOffered: offered}
		})
		c.Ready(noContext)
	}
	shake(tls.VersionTLS13, false, true, false)
	earlier := p.Report()
	shake(tls.VersionTLS13, false, true, false)
	shake(tls.VersionTLS13, true, false, true)
	shake(tls.VersionTLS12, false, false, true)
	shake(0x0305, false, false, false)
	r := p.Report()
	want := TLSReport{
		Handshakes: 5, Resumed: 1, Refused: 1, HelloRetry: 2, Versions: map[string]int64{"TLS 1.2": 1, "TLS 1.3": 3, "other": 1},
		Kinds: []HandshakeCount{{"TLS 1.2", false, false, 1}, {"TLS 1.3", false, true, 2}, {"TLS 1.3", true, false, 1}, {"other", false, false, 1}},
	}
	if got := r.Endpoints[0].TLS; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	want.Handshakes, want.HelloRetry, want.Versions["TLS 1.3"], want.Kinds[1].Count = 4, 1, 2, 1
	if got := r.Sub(earlier).Endpoints[0].TLS; !reflect.DeepEqual(got, want) {
		t.Errorf("since: %+v", got)
	}
}

func TestWhatAPoolTellsOfItsWaitersIsAddedUp(t *testing.T) {
	var p Profiler
	tells := PoolStats{MinIdle: 2, Pending: 3, PendingKnown: true, Timeouts: 4, TimeoutsKnown: true}
	stop := p.WatchPool("orders", func() PoolStats { return tells })
	p.WatchPool("orders", func() PoolStats { return tells })
	p.WatchPool("other", func() PoolStats { return PoolStats{} })
	stop()
	tells.Timeouts = 6
	r := p.Report()
	for _, s := range r.Pools {
		known := s.Name == "orders"
		if s.PendingKnown != known || s.TimeoutsKnown != known || known && (s.MinIdle != 2 || s.Pending != 3 || s.Timeouts != 10) {
			t.Errorf("%+v", s)
		}
	}
	c := Conn{s: &series{of: Endpoint{Address: "(other)"}}, endpoint: &Endpoint{Address: "a"}}
	if c.Counted().Address != "(other)" || c.Endpoint().Address != "a" {
		t.Errorf("counted by %v", c.Counted())
	}
}

// dropping is a Sink that left out so many.
type dropping int64

func (dropping) Record(context.Context, Event) {}
func (d dropping) Dropped() int64 {
	if d < 0 {
		panic("theirs")
	}
	return int64(d)
}

func TestWhatSinksLeftOutIsInReports(t *testing.T) {
	p := Profiler{Sinks: []Sink{dropping(3), &recorder{}, dropping(4)}}
	earlier := p.Report()
	p.Sinks[0] = dropping(5)
	r := p.Report()
	if n, since := r.Dropped.Sinks, r.Sub(earlier).Dropped.Sinks; n != 9 || since != 2 || !strings.Contains(r.String(), "9 items left out by sinks") {
		t.Errorf("%d, since then %d: %s", n, since, r)
	}
	p.Sinks[2] = dropping(-1)
	if r := p.Report(); r.Dropped.Sinks != 5 {
		t.Errorf("%d beside one that panics", r.Dropped.Sinks)
	}
	if n := p.Report().SinkPanics; n == 0 {
		t.Error("its panic is not counted")
	}
}

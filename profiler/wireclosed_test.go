package profiler

import "testing"

// A monitor's connection that is closed from elsewhere between its last read and its heartbeat's end is not live for ever.
func TestWireClosedBeforeTheCreateEnds(t *testing.T) {
	p := &Profiler{}
	c := p.NewConn(orders, RoleMonitor)
	c.WireClosed()
	c.Watch(noWatcher{}) // another dial
	c.Ready(NoCaller)
	if n := len(p.Conns()); n != 1 {
		t.Errorf("%d live after a second dial", n)
	}
	c.WireClosed()
	d := p.NewConn(orders, RoleMonitor)
	d.WireClosed()
	d.Ready(NoCaller)
	e := p.Report().Endpoint(orders.Address, RoleMonitor)
	if e.Created != 2 || e.Closed != 2 || len(p.Conns()) != 0 {
		t.Errorf("%d created, %d closed, %d listed", e.Created, e.Closed, len(p.Conns()))
	}
}

type noWatcher struct{}

func (noWatcher) Settle(Instant, error) {}

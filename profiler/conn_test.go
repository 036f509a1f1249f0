package profiler

import (
	"context"
	"io"
	"reflect"
	"testing"
	"time"
)

// call calls every exported method of v with zero arguments.
func call(v any, except ...string) {
	val := reflect.ValueOf(v)
next:
	for m, f := range val.Methods() {
		for _, e := range except {
			if m.Name == e {
				continue next
			}
		}
		var args []reflect.Value
		for i := range f.Type().NumIn() {
			args = append(args, reflect.Zero(f.Type().In(i)))
		}
		if f.Type().IsVariadic() {
			f.CallSlice(args)
		} else {
			f.Call(args)
		}
	}
}

func TestAllMethodsOfANilConnDoNothing(t *testing.T) {
	call((*Conn)(nil))
	var o Op
	call(&o)
	call((*Profiler)(nil))
	if c := (*Profiler)(nil).NewConn(orders, RolePool); c != nil {
		t.Error("a nil Profiler makes a Conn")
	}
	if FromContext(noContext) != nil || FromContext(NewContext(context.Background(), nil)) != nil {
		t.Error("there is a Conn in a context that has none")
	}
}

// Nothing that instrumentation can pass by mistake may panic in the host's call.
func TestZeroArgumentsNeverPanic(t *testing.T) {
	p := Profiler{Sinks: []Sink{&recorder{}}}
	c := p.NewConn(Endpoint{}, Role(200))
	c.Closed(CloseReason(200), nil)
	c = p.NewConn(Endpoint{}, RolePool)
	call(c, "Update", "Attach", "Fail", "Ready", "ReadyAlone")
	c.Ready(noContext)
	call(c)
	c = p.NewConn(Endpoint{}, RolePool)
	c.Ready(noContext)
	c.Closed(CloseReason(200), nil)
	p.Report()
	if got := p.Report().Endpoint("", RolePool).ClosedBy["unknown"]; got != 2 {
		t.Errorf("an invalid reason is counted as unknown %d times", got)
	}
}

func TestADisabledProfilerMakesNoConn(t *testing.T) {
	var p Profiler
	p.Disable()
	if p.NewConn(orders, RolePool) != nil || p.Enabled() {
		t.Error("it does")
	}
	p.Enable()
	if p.NewConn(orders, RolePool) == nil || !p.Enabled() {
		t.Error("it makes none when enabled again")
	}
}

func TestAConnTellsWhatItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		begin := time.Now()
		c := p.NewConn(orders, RoleMonitor)
		d := p.NewConn(orders, RolePool)
		c.SetKind("rtt")
		if c.ID() != 1 || d.ID() != 2 || c.Endpoint() != orders || c.Role() != RoleMonitor || c.Kind() != "rtt" || c.Profiler() != &p {
			t.Errorf("id %d %d, %v %v %q", c.ID(), d.ID(), c.Endpoint(), c.Role(), c.Kind())
		}
		pass(time.Second)
		if got := c.Time(Now()); !got.Equal(time.Now()) || c.Since(Now()) != time.Second {
			t.Errorf("now is %v, want %v; %v since the start", got, time.Now(), c.Since(Now()))
		}
		if !c.Time(0).IsZero() || c.Since(0) != 0 || c.ReadyAt() != 0 {
			t.Error("what is not known has a time")
		}
		c.Ready(noContext)
		if !c.Create().Start.Equal(begin) || c.ReadyAt() != Now() {
			t.Errorf("started at %v, want %v", c.Create().Start, begin)
		}
		if Now().Known() && InstantOf(time.Now()) != Now() || InstantOf(time.Time{}) != 0 || Instant(0).Add(time.Second).Known() {
			t.Error("Instants and times don't agree")
		}
	})
}

func TestAttachKeepsOneValueAKey(t *testing.T) {
	type a struct{}
	type b struct{}
	c := new(Profiler).NewConn(orders, RolePool)
	c.Attach(a{}, 1)
	c.Attach(b{}, 2)
	c.Attach(a{}, 3)
	if c.Attached(a{}) != 3 || c.Attached(b{}) != 2 {
		t.Errorf("got %v %v", c.Attached(a{}), c.Attached(b{}))
	}
	c.Attach(a{}, nil)
	c.Attach("never there", nil)
	if c.Attached(a{}) != nil || c.Attached(b{}) != 2 {
		t.Errorf("after removal: %v %v", c.Attached(a{}), c.Attached(b{}))
	}
}

func TestAConnectionEndsOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		role   Role
		do     func(*Conn)
		closes int
	}{
		{"a close", RolePool, func(c *Conn) { c.Ready(noContext); c.Closed(CloseError, io.EOF) }, 1},
		{"two closes", RolePool, func(c *Conn) { c.Ready(noContext); c.Closed(CloseError, io.EOF); c.Closed(CloseIdleTime, nil) }, 1},
		{"a close before ready waits for it", RolePool, func(c *Conn) { c.Closed(CloseError, io.EOF); c.Ready(noContext) }, 1},
		{"a close before ready, and no ready", RolePool, func(c *Conn) { c.Closed(CloseError, io.EOF) }, 0},
		{"a failed create has no close", RolePool, func(c *Conn) { c.Fail(noContext, io.EOF); c.Closed(CloseError, io.EOF) }, 0},
		{"the wire says nothing of a pool's connection", RolePool, func(c *Conn) { c.Ready(noContext); c.WireClosed() }, 0},
		{"but where nobody else does", RolePool, func(c *Conn) { c.CloseWithWire(); c.Ready(noContext); c.WireClosed() }, 1},
		{"and of a monitor's", RoleMonitor, func(c *Conn) { c.Ready(noContext); c.WireClosed(); c.WireClosed() }, 1},
		{"not while it is being made", RoleMonitor, func(c *Conn) { c.WireClosed() }, 0},
		{"nor after it failed", RoleMonitor, func(c *Conn) { c.Fail(noContext, io.EOF); c.WireClosed() }, 0},
	} {
		var r recorder
		p := Profiler{Sinks: []Sink{&r}}
		tt.do(p.NewConn(orders, tt.role))
		rep := p.Report()
		e := rep.Endpoint("", tt.role)
		if r.count(KindClose) != tt.closes || e.Closed != int64(tt.closes) || e.Live != e.Created-e.Closed || e.Live < 0 {
			t.Errorf("%s: %d reported, %d counted, want %d; %d live", tt.name, r.count(KindClose), e.Closed, tt.closes, e.Live)
		}
		if want := int(e.Live); len(p.Conns()) != want && e.Created > 0 {
			t.Errorf("%s: %d listed as live, want %d", tt.name, len(p.Conns()), want)
		}
	}
}

func TestACloseTellsLifeReasonAndOperations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r recorder
		p := Profiler{Sinks: []Sink{&r}}
		c := p.NewConn(orders, RolePool)
		pass(time.Millisecond)
		c.Ready(noContext)
		for range 3 {
			op(context.Background(), c, OpExec, time.Second, 0, nil)
		}
		c.Closed(CloseLifetime, io.EOF)
		p.Flush()
		want := Close{At: time.Now(), Reason: CloseLifetime, Err: io.EOF, Life: 3 * time.Second, Ops: 3}
		got := r.events[len(r.events)-1].Close
		if !got.At.Equal(want.At) {
			t.Errorf("at %v, want %v", got.At, want.At)
		}
		if got.At = want.At; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestLiveConnectionsAreListedInOrder(t *testing.T) {
	var p Profiler
	var cs []*Conn
	live := make(map[*Conn]bool)
	for range 50 {
		c := p.NewConn(orders, RolePool)
		c.Ready(noContext)
		cs, live[c] = append(cs, c), true
	}
	for i := range 50 {
		c := cs[i*37%50]
		c.Closed(CloseError, nil)
		delete(live, c)
		got := p.Conns()
		for j, c := range got {
			if !live[c] || j > 0 && c.ID() <= got[j-1].ID() {
				t.Fatalf("after %d closes, place %d holds connection %d", i+1, j, c.ID())
			}
		}
		if len(got) != len(live) {
			t.Fatalf("%d listed, want %d", len(got), len(live))
		}
	}
}

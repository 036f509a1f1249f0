package profiler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sumOf fails the test unless the create's phases lie within it and sum to it.
func sumOf(t *testing.T, cr *Create) {
	t.Helper()
	var sum time.Duration
	for p, s := range cr.Phases {
		if (!s.Present && s != Span{}) || s.Duration < 0 || s.Begin < 0 || s.Begin+s.Duration > cr.Duration {
			t.Fatalf("%s is %+v in a create of %v", Phase(p), s, cr.Duration)
		}
		sum += s.Duration
	}
	if sum != cr.Duration {
		t.Fatalf("the phases sum to %v, the create took %v: %+v", sum, cr.Duration, cr.Phases)
	}
	if cr.Phases[NoPhase].Present {
		t.Fatal("time is charged to no phase")
	}
}

// settler is a Watcher that makes cuts of its own when the create ends.
type settler struct {
	c     *Conn
	cuts  func(end Instant)
	calls int
}

func (s *settler) Settle(end Instant, _ error) {
	s.calls++
	if s.cuts != nil {
		s.cuts(end)
	}
}

func TestPhasesSumToTheCreateWhateverHappens(t *testing.T) {
	var p Profiler
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		c := p.NewConn(orders, RolePool)
		at := c.started
		somewhen := func() Instant { // mostly onward, at times back, or not known
			switch rnd.IntN(12) {
			case 0:
				return 0
			case 1, 2:
				return at.Add(-time.Duration(rnd.IntN(5000)))
			}
			at = at.Add(time.Duration(rnd.IntN(1000)))
			return at
		}
		cut := func() { c.Cut(Phase(rnd.IntN(int(NumPhases)+2)), somewhen()) }
		for range rnd.IntN(20) {
			switch rnd.IntN(10) {
			case 0:
				c.Lost(somewhen(), io.EOF)
			case 1:
				c.Watch(&settler{c: c, cuts: func(Instant) { cut(); cut() }})
			case 2:
				c.Attempt(Attempt{Begin: c.Since(at)})
			default:
				cut()
			}
		}
		switch rnd.IntN(3) {
		case 0:
			c.Ready(context.Background())
		case 1:
			c.ReadyAlone(somewhen())
		case 2:
			if rnd.IntN(2) == 0 {
				c.Update(func(cr *Create) { cr.Failed = Phase(rnd.IntN(int(NumPhases) + 2)) })
			}
			c.Fail(noContext, io.ErrUnexpectedEOF)
		}
		sumOf(t, c.Create())
		if cr := c.Create(); (cr.Err != nil) != (cr.Failed != NoPhase) || cr.Failed >= NumPhases {
			t.Fatalf("err %v, failed in %v", cr.Err, cr.Failed)
		}
		c.Closed(CloseUnknown, nil)
	}
	for _, e := range p.Report().Endpoints {
		var sum time.Duration
		for _, s := range e.Breakdown {
			sum += s.Sum
		}
		if want := e.Distribution(MeasureCreate, OK).Sum; sum != want {
			t.Errorf("the breakdown sums to %v, the creates to %v", sum, want)
		}
	}
}

func TestCutChargesWhatIsNotChargedYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		c := p.NewConn(orders, RolePool)
		start := Now()
		pass(3 * time.Millisecond)
		c.Cut(Resolve, Now())
		c.Cut(Hook, start.Add(time.Millisecond)) // charged already
		c.Cut(TLS, 0)                            // not known
		pass(2 * time.Millisecond)
		c.Cut(Connect, Now())
		c.Cut(Verify, Now()) // took no time, but was there
		pass(time.Millisecond)
		c.Cut(Phase(200), Now()) // no such phase
		pass(time.Millisecond)
		c.Ready(context.Background())
		want := [NumPhases]Span{
			Resolve: {0, 3 * time.Millisecond, true}, Connect: {3 * time.Millisecond, 2 * time.Millisecond, true},
			Verify: {5 * time.Millisecond, 0, true}, Other: {5 * time.Millisecond, 2 * time.Millisecond, true},
		}
		if cr := c.Create(); cr.Phases != want || cr.Duration != 7*time.Millisecond || !cr.Caller {
			t.Errorf("got %+v, caller %t", cr, cr.Caller)
		}
	})
}

func TestAFinishedCreateNeverChanges(t *testing.T) {
	for name, finish := range map[string]func(*Conn){
		"ready":  func(c *Conn) { c.Ready(context.Background()) },
		"alone":  func(c *Conn) { c.ReadyAlone(Now()) },
		"failed": func(c *Conn) { c.Fail(noContext, io.EOF) },
	} {
		var r recorder
		p := Profiler{Sinks: []Sink{&r}}
		c := p.NewConn(orders, RolePool)
		dialed := Now()
		c.Cut(Connect, dialed)
		c.Attempt(Attempt{Address: "a"})
		if c.Create() != nil {
			t.Fatalf("%s: there is a Create before it ended", name)
		}
		finish(c)
		cr := *c.Create()
		cr.Attempts = append([]Attempt(nil), cr.Attempts...)
		late := &settler{}
		c.Cut(TLS, Now().Add(time.Second))
		c.Update(func(cr *Create) { cr.Caller = !cr.Caller })
		c.Attempt(Attempt{Address: "b"})
		c.Watch(late)
		c.Lost(Now(), io.ErrClosedPipe)
		c.Ready(noContext)
		c.ReadyAlone(Now())
		c.Fail(context.Background(), io.ErrNoProgress)
		if !reflect.DeepEqual(*c.Create(), cr) {
			t.Errorf("%s: was\n%+v, is\n%+v", name, cr, *c.Create())
		}
		if late.calls != 0 || r.count(KindCreate) != 1 {
			t.Errorf("%s: a late watcher was called %d times, %d creates reported", name, late.calls, r.count(KindCreate))
		}
	}
}

func TestAttemptsAreBoundedAndCounted(t *testing.T) {
	var p Profiler
	c := p.NewConn(orders, RolePool)
	for range MaxAttempts + 5 {
		c.Attempt(Attempt{})
	}
	c.Ready(noContext)
	if cr := c.Create(); len(cr.Attempts) != MaxAttempts || cr.AttemptsDropped != 5 {
		t.Errorf("%d kept, %d dropped", len(cr.Attempts), cr.AttemptsDropped)
	}
}

func TestAFailureIsKeptAsItIs(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	own := errors.New("driver: bad connection")
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		err    error
		failed Phase
		want   Outcome
		phase  Phase
	}{
		{"an error without a named phase failed in other", nil, own, NoPhase, Failed, Other},
		{"a named phase", nil, own, TLS, Failed, TLS},
		{"an invalid phase", nil, own, NumPhases, Failed, Other},
		{"the caller's context was canceled", canceled, own, Auth, Canceled, Auth},
		{"a deadline", nil, context.DeadlineExceeded, Connect, Timeout, Connect},
	} {
		var p Profiler
		c := p.NewConn(orders, RolePool)
		c.Update(func(cr *Create) { cr.Failed = tt.failed })
		c.Fail(tt.ctx, tt.err)
		if cr := c.Create(); cr.Err != tt.err || cr.Outcome != tt.want || cr.Failed != tt.phase || c.ReadyAt().Known() {
			t.Errorf("%s: %v, %v in %v", tt.name, cr.Err, cr.Outcome, cr.Failed)
		}
	}
	var p Profiler
	c := p.NewConn(orders, RolePool)
	if c.Fail(noContext, nil); c.Create().Err == nil {
		t.Error("Fail without an error made the connection ready")
	}
}

func TestWhoeverEndsTheCreateFirstEndsIt(t *testing.T) {
	var r recorder
	p := Profiler{Sinks: []Sink{&r}}
	const n = 200
	for range n {
		c := p.NewConn(orders, RolePool)
		w := &settler{c: c, cuts: func(end Instant) { c.Cut(Auth, end) }}
		c.Watch(w)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				switch i % 3 {
				case 0:
					c.Ready(context.Background())
				case 1:
					c.Fail(noContext, io.EOF)
				case 2:
					c.Closed(CloseIdleTime, nil)
				}
				c.Cut(TLS, Now())
				c.Create()
			})
		}
		wg.Wait()
		if w.calls != 1 {
			t.Fatalf("settled %d times", w.calls)
		}
		sumOf(t, c.Create())
	}
	rep := p.Report()
	e := rep.Endpoint("", RolePool)
	if got := r.count(KindCreate); got != n || e.Created+e.Failed != n {
		t.Errorf("%d creates reported, %d counted, want %d", got, e.Created+e.Failed, n)
	}
	if got := r.count(KindClose); int64(got) != e.Created || e.Closed != e.Created || e.Live != 0 {
		t.Errorf("%d closes reported, %d counted, of %d that were ready; %d live", got, e.Closed, e.Created, e.Live)
	}
	if len(p.Conns()) != 0 {
		t.Errorf("%d connections are still listed", len(p.Conns()))
	}
}

// How many creates go on at once is known, for each role.
func TestCreatesAtOnceAreCounted(t *testing.T) {
	p := new(Profiler)
	at := func() (making, most int64) {
		e := p.Report().Endpoint(orders.Address, RolePool)
		return e.Making, e.MakingMost
	}
	a, b, c := p.NewConn(orders, RolePool), p.NewConn(orders, RolePool), p.NewConn(orders, RolePool)
	p.NewConn(orders, RoleMonitor)
	if making, most := at(); making != 3 || most != 3 {
		t.Errorf("%d, at most %d, want three", making, most)
	}
	a.Ready(noContext)
	b.Fail(noContext, io.EOF)
	b.Fail(noContext, io.EOF) // changes nothing
	if making, most := at(); making != 1 || most != 3 {
		t.Errorf("%d, at most %d, want one and three", making, most)
	}
	c.Closed(CloseError, nil) // before it is ready
	c.Ready(noContext)
	a.Closed(CloseError, nil)
	if making, most := at(); making != 0 || most != 3 {
		t.Errorf("%d, at most %d, want none and three", making, most)
	}
	if text := p.Report().String(); !strings.Contains(text, "at once      up to 3 creates, 0 now\n") {
		t.Errorf("report:\n%s", text)
	}
}

// A driver may say "canceled" of what it canceled itself because the peer had gone: MongoDB's v2 does at times (connection.close, connection.go).
func TestACreateThatThePeerCutWasNotCanceled(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		cause   error
		outcome Outcome
		class   ErrorClass
	}{
		{"the peer closed", noContext, io.EOF, Failed, ClassClosed},
		{"the peer reset", context.Background(), &net.OpError{Op: "read", Err: syscall.ECONNRESET}, Failed, ClassReset},
		{"the caller gave up, too", done, io.EOF, Canceled, ClassCanceled},
		{"this side closed", noContext, net.ErrClosed, Canceled, ClassCanceled},
		{"nothing on the wire", noContext, nil, Canceled, ClassCanceled},
	} {
		c := new(Profiler).NewConn(orders, RoleMonitor)
		c.Update(func(cr *Create) { cr.Failed, cr.Cause = Hello, tt.cause })
		c.Fail(tt.ctx, fmt.Errorf("incomplete read of message header: %w", context.Canceled))
		if cr := c.Create(); cr.Outcome != tt.outcome || cr.Class != tt.class {
			t.Errorf("%s: %v, class %v; want %v, %v", tt.name, cr.Outcome, cr.Class, tt.outcome, tt.class)
		}
	}
}

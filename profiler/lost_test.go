package profiler

import (
	"errors"
	"io"
	"reflect"
	"testing"
	"time"
)

func TestLostFoldsADialIntoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		var p Profiler
		c := p.NewConn(orders, RolePool)
		c.Lost(Now(), io.EOF) // nothing was dialed
		cut := func(p Phase, d time.Duration) { pass(d); c.Cut(p, Now()) }
		cut(Hook, ms)
		cut(Resolve, 2*ms)
		cut(Connect, 3*ms)
		c.Attempt(Attempt{Address: "loser", Begin: 3 * ms, Duration: 3 * ms})
		c.Attempt(Attempt{Address: "slower", Begin: 4 * ms, Duration: 2 * ms, Reached: Connect})
		w := &settler{c: c, cuts: func(end Instant) { c.Cut(Auth, end) }}
		c.Watch(w)
		c.Update(func(cr *Create) { cr.TLS.Seen, cr.Wire.Turns = true, 4 })
		pass(5 * ms)
		rejected := errors.New("server is not a primary")
		c.Lost(Now(), rejected)
		cut(Connect, 7*ms)
		c.Attempt(Attempt{Address: "winner", Begin: 11 * ms, Duration: 7 * ms})
		c.Ready(noContext)

		cr := c.Create()
		sumOf(t, cr)
		want := [NumPhases]Span{Hook: {0, ms, true}, Resolve: {ms, 2 * ms, true}, Attempts: {3 * ms, 8 * ms, true}, Connect: {11 * ms, 7 * ms, true}}
		if cr.Phases != want {
			t.Errorf("phases %+v", cr.Phases)
		}
		wantAttempts := []Attempt{
			{Address: "loser", Begin: 3 * ms, Duration: 8 * ms, Reached: Auth, Err: rejected},
			{Address: "slower", Begin: 4 * ms, Duration: 2 * ms, Reached: Connect},
			{Address: "winner", Begin: 11 * ms, Duration: 7 * ms},
		}
		if !reflect.DeepEqual(cr.Attempts, wantAttempts) {
			t.Errorf("attempts %+v", cr.Attempts)
		}
		if w.calls != 1 || cr.TLS.Seen || cr.Wire.Turns != 0 || cr.Cause != nil {
			t.Errorf("settled %d times; left of the lost dial: %+v %+v %v", w.calls, cr.TLS, cr.Wire, cr.Cause)
		}
	})
}

func TestLostFoldsADialThatFailedAtItsConnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		c := p.NewConn(orders, RolePool)
		pass(time.Millisecond)
		c.Cut(Connect, Now())
		c.Attempt(Attempt{Address: "down", Duration: time.Millisecond, Reached: Connect, Err: io.EOF})
		c.Update(func(cr *Create) { cr.Failed = Connect })
		c.Lost(Now(), io.ErrClosedPipe)
		pass(2 * time.Millisecond)
		c.Cut(Connect, Now())
		c.Ready(noContext)
		cr := c.Create()
		if cr.Phases[Attempts].Duration != time.Millisecond || cr.Phases[Connect].Duration != 2*time.Millisecond || cr.Attempts[0].Err != io.EOF {
			t.Errorf("got %+v", cr)
		}
	})
}

func TestALostAttemptHasTheCauseThatItsWatcherNames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		c := p.NewConn(orders, RolePool)
		pass(time.Millisecond)
		c.Cut(Connect, Now())
		c.Attempt(Attempt{Address: "gone", Duration: time.Millisecond})
		c.Watch(&settler{c: c, cuts: func(Instant) { c.Update(func(cr *Create) { cr.Failed, cr.Cause = Auth, io.EOF }) }})
		c.Lost(Now(), io.ErrClosedPipe)
		c.Cut(Connect, Now())
		c.Ready(noContext)
		if cr := c.Create(); cr.Attempts[0].Err != io.EOF || cr.Attempts[0].Reached != Auth || cr.Cause != nil {
			t.Errorf("attempts %+v, cause %v; want the lost one's alone", cr.Attempts, cr.Cause)
		}
	})
}

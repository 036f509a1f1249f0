package pool

import (
	"testing"
	"testing/synctest"
	"time"
)

// The driver's words reach us 1 ms after the wait ended, and the create began 100 µs after the caller asked.
func TestCMAPFirstUserAskedBeforeTheCreateThatNobodyElseAskedFor(t *testing.T) {
	for _, c := range []struct {
		name         string
		others       bool          // somebody asks while the connection is made
		wait         time.Duration // as the driver says
		before       bool          // the first user asked no later than the create began
		asksMeantime bool          // the user itself asks after the create began
	}{
		{name: "its caller", wait: 5100 * time.Microsecond, before: true},
		{name: "its caller, while others ask", wait: 5100 * time.Microsecond, others: true},
		{name: "somebody who came later", wait: time.Microsecond, asksMeantime: true},
		{name: "somebody who waited for less than the create", wait: 4 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t)
				if !c.asksMeantime {
					s.pool(checkOutStarted, 0)
				}
				time.Sleep(100 * time.Microsecond)
				s.pool(connectionCreated, 1)
				conn := s.dial()
				time.Sleep(5 * time.Millisecond)
				if c.others || c.asksMeantime {
					s.pool(checkOutStarted, 0)
				}
				s.pool(connectionReady, 1)
				time.Sleep(time.Millisecond)
				s.out(1, c.wait)
				s.command("find", here+"[-7]", 0)
				s.in(1)
				time.Sleep(time.Millisecond)
				s.pool(checkOutStarted, 0)
				s.out(1, time.Microsecond)
				s.command("find", here+"[-7]", 0)
				s.in(1)

				ops := s.operations()
				if len(ops) != 2 {
					t.Fatalf("%d operations", len(ops))
				}
				first, second := ops[0].Op, ops[1].Op
				if before := !first.Asked.After(conn.Create().Start); before != c.before {
					t.Errorf("asked %v after the create began", first.Asked.Sub(conn.Create().Start))
				}
				if first.Wait != c.wait {
					t.Errorf("waited %v, the driver says %v", first.Wait, c.wait)
				}
				if had := first.Asked.Add(first.Wait); had.After(first.Start) {
					t.Errorf("had the connection %v after its operation began", had.Sub(first.Start))
				}
				if second.Wait != time.Microsecond || second.Asked.Before(first.End) {
					t.Errorf("second use: asked %v before the first ended, waited %v", first.End.Sub(second.Asked), second.Wait)
				}
				s.close(1, "idle", nil)
				s.p.Flush()
				s.empty()
			})
		})
	}
}

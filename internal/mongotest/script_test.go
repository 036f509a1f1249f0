package mongotest

import (
	"testing"
	"time"
)

func TestDelayIsHonoured(t *testing.T) {
	const delay = 30 * time.Millisecond
	for _, command := range []string{"hello", "saslContinue", "saslStart", "find"} {
		t.Run(command, func(t *testing.T) {
			drivers(t, func(t *testing.T, d driver) {
				s := Start(t, Options{Users: map[string]string{"ann": "right"}, NoSpeculation: true, Script: On(command, Step{Delay: delay})})
				c := d.connect(t, s.UserURI("ann", "right", ""), nil)
				_ = c.findOne(1)
				log, _ := s.Conn(c.commands()[0].conn)
				for _, cmd := range log.Commands {
					if took := cmd.Replied.Sub(cmd.At); cmd.Name == command && took < delay {
						t.Errorf("%s was answered after %v, want %v", cmd.Name, took, delay)
					}
				}
				if log.Count(command) == 0 {
					t.Errorf("%s is not in the log: %+v", command, log)
				}
			})
		})
	}
}

func TestDelayBeforeTheTLSHandshake(t *testing.T) {
	const delay = 30 * time.Millisecond
	drivers(t, func(t *testing.T, d driver) {
		server, clientConfig := tlsConfigs()
		s := Start(t, Options{TLS: server, Script: On(Accept, Step{Delay: delay})})
		if err := d.connect(t, s.URI(""), clientConfig).ping(); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Conns() {
			if took := c.Commands[0].At.Sub(c.Accepted); took < delay {
				t.Errorf("connection %d: first command after %v, want %v", c.ID, took, delay)
			}
		}
	})
}

func TestReadIsRetriedAfterTheSocketIsClosed(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Script: OnNth("find", 1, Step{Close: true})})
		c := d.connect(t, s.URI(""), nil)
		if err := c.insert(1); err != nil {
			t.Fatal(err)
		}
		if err := c.findOne(1); err != nil {
			t.Fatal(err)
		}
		got := c.commands()
		if len(got) != 3 || !got[1].failed || got[2].failed || got[1].conn == got[2].conn {
			t.Fatalf("the driver reports %+v, want insert, a failed find and a find on another connection", got)
		}
		if n := dials(s, RolePool); n != 2 { // driver 1.17 dials its monitor's connection again, too; 2.10 does not
			t.Errorf("%d dials of the pool, want 2", n)
		}
		failed, _ := s.Conn(got[1].conn)
		if failed.Open() || !failed.Commands[len(failed.Commands)-1].Replied.IsZero() {
			t.Errorf("connection %+v, want it closed without a reply to find", failed)
		}
	})
}

func TestFailuresReachTheDriver(t *testing.T) {
	refused := &Error{Code: 91, Name: "ShutdownInProgress", Message: "going down"}
	tests := []struct {
		name string
		step func(Call) Step
	}{
		{"close after accept", On(Accept, Step{Close: true})},
		{"close on hello", On("hello", Step{Close: true})},
		{"refused hello", On("hello", Step{Error: refused})},
		{"hang after accept", On(Accept, Step{Hang: true})},
		{"hang on hello", On("hello", Step{Hang: true})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			drivers(t, func(t *testing.T, d driver) {
				s := Start(t, Options{Script: test.step})
				c := d.connect(t, s.URI("serverSelectionTimeoutMS=150&connectTimeoutMS=50"), nil)
				if err := c.ping(); err == nil {
					t.Fatal("ping succeeded")
				}
				// The client gives up on a connection that hangs, and the log says so.
				s.WaitFor(t, func(logs []ConnLog) bool { return len(logs) > 0 && !logs[0].Open() })
				s.SetScript(nil)
			})
		})
	}
}

func TestCommandIsRefusedOrAnsweredAsScripted(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Script: On("find", Step{Error: &Error{Code: 50, Name: "MaxTimeMSExpired", Message: "too slow"}})})
		c := d.connect(t, s.URI(""), nil)
		if err := c.findOne(1); c.code(err) != 50 {
			t.Errorf("got %v, want code 50", err)
		}
		s.SetScript(On("find", Step{Reply: batchReply("firstBatch", 0, "test.things", nil)}))
		if err := c.findOne(1); err == nil {
			t.Error("a scripted reply without ok was accepted")
		}
		s.SetScript(nil)
		if n, err := c.findAll(10); n != 0 || err != nil {
			t.Errorf("%d documents, %v, want none", n, err)
		}
	})
}

func TestScriptSeesWhatIsAsked(t *testing.T) {
	calls := make(chan Call, 100)
	s := Start(t, Options{Users: map[string]string{"ann": "right"}, Script: func(c Call) Step { calls <- c; return Step{} }})
	c := connectV2(t, s.UserURI("ann", "right", ""), nil)
	for range 2 {
		if err := c.ping(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 2; {
		call := <-calls
		if call.Speculative != (call.Command == "hello" && call.Conn == 2) {
			t.Errorf("call %+v: speculative", call)
		}
		if call.Command == "ping" {
			if n++; call.N != n || call.NConn != n || call.Conn != 2 {
				t.Errorf("ping %d is %+v", n, call)
			}
		}
	}
}

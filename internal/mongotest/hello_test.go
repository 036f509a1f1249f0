package mongotest

import "testing"

func TestStreamingClientDialsThree(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Streaming: true, Users: map[string]string{"ann": "right"}})
		if err := d.connect(t, s.UserURI("ann", "right", ""), nil).insert(1); err != nil {
			t.Fatal(err)
		}
		// The heartbeat awaits its hello, the RTT monitor has said hello, the pool has inserted.
		s.WaitFor(t, func(logs []ConnLog) bool {
			return open(logs, RoleMonitor) == 2 && open(logs, RolePool) == 1 && logs[0].Count("hello") == 2
		})
		logs := s.Conns()
		if len(logs) != 3 {
			t.Fatalf("%d dials, want 3: %+v", len(logs), logs)
		}
		for i, c := range logs {
			awaited := false
			for _, cmd := range c.Commands {
				awaited = awaited || cmd.Awaited
			}
			if awaited != (i == 0) {
				t.Errorf("connection %d awaited a hello: %v", c.ID, awaited)
			}
		}
	})
}

func TestStreamedHelloComesAfterMaxAwaitTime(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Streaming: true})
		c := d.connect(t, s.URI("heartbeatFrequencyMS=500"), nil)
		if err := c.ping(); err != nil {
			t.Fatal(err)
		}
		s.WaitFor(t, func(logs []ConnLog) bool {
			hellos := logs[0].Commands
			return len(hellos) == 2 && !hellos[1].Replied.IsZero()
		})
		awaited := s.Conns()[0].Commands[1]
		if took := awaited.Replied.Sub(awaited.At); !awaited.Awaited || took.Milliseconds() < 500 {
			t.Errorf("%+v was answered after %v, want 500ms", awaited, took)
		}
	})
}

func TestClientLearnsOfANewPrimaryAtOnce(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Streaming: true, ReplicaSet: &ReplicaSet{Name: "rs", Secondary: true}})
		c := d.connect(t, s.URI("replicaSet=rs"), nil)
		s.WaitFor(t, func(logs []ConnLog) bool { return len(logs) > 0 && logs[0].Count("hello") == 2 })
		s.SetReplicaSet(&ReplicaSet{Name: "rs"}) // heartbeatFrequencyMS is 10 s
		if err := c.insert(1); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSecondaryServesReadsOnly(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{ReplicaSet: &ReplicaSet{Name: "rs", Secondary: true}})
		c := d.connect(t, s.URI("directConnection=true&retryWrites=false"), nil)
		if n, err := c.findAll(10); n != 0 || err != nil { // a direct connection asks for primaryPreferred
			t.Errorf("find: %d documents, %v", n, err)
		}
		if err := c.insert(1); c.code(err) != CodeNotWritablePrimary {
			t.Errorf("insert: %v, want code %d", err, CodeNotWritablePrimary)
		}
	})
}

func TestLoadBalancedClientDialsOne(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{LoadBalanced: true})
		if err := d.connect(t, s.URI("loadBalanced=true"), nil).insert(1); err != nil {
			t.Fatal(err)
		}
		logs := s.Conns()
		if len(logs) != 1 || logs[0].Role() != RolePool || logs[0].Commands[0].Legacy {
			t.Errorf("connections %+v, want one, of the pool, with an OP_MSG hello", logs)
		}
	})
}

package mongotest

import "testing"

func TestLogin(t *testing.T) {
	tests := []struct {
		name     string
		options  Options
		params   string
		sasl     int // sasl commands on a connection of the pool
		speculat bool
	}{
		{name: "rides in hello", sasl: 1, speculat: true},
		{name: "takes a turn more without speculation", options: Options{NoSpeculation: true}, sasl: 2},
		{name: "takes a turn more without speculation and with a chosen mechanism", options: Options{NoSpeculation: true},
			params: "authMechanism=SCRAM-SHA-256", sasl: 2},
		{name: "works with MongoDB's own iteration count", options: Options{Iterations: 15000}, sasl: 1, speculat: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			drivers(t, func(t *testing.T, d driver) {
				test.options.Users = map[string]string{"ann": "p:ss/w@rd"}
				s := Start(t, test.options)
				c := d.connect(t, s.UserURI("ann", "p:ss/w@rd", test.params), nil)
				if err := c.insert(1); err != nil {
					t.Fatal(err)
				}
				log, ok := s.Conn(c.commands()[0].conn)
				if !ok || log.User != "ann" || log.Speculative != test.speculat {
					t.Errorf("connection %+v", log)
				}
				if n := log.Count("saslStart") + log.Count("saslContinue"); n != test.sasl {
					t.Errorf("%d sasl commands, want %d", n, test.sasl)
				}
				if monitor := s.Conns()[0]; monitor.Role() != RoleMonitor || monitor.User != "" {
					t.Errorf("first connection %+v, want a monitor that did not log in", monitor)
				}
			})
		})
	}
}

func TestLoginIsRefused(t *testing.T) {
	tests := []struct {
		name, user, password, params string
		options                      Options
		code                         int
	}{
		{name: "with a wrong password", user: "ann", password: "wrong", code: CodeAuthenticationFailed},
		{name: "with a wrong password without speculation", user: "ann", password: "wrong",
			options: Options{NoSpeculation: true}, code: CodeAuthenticationFailed},
		{name: "to an unknown user", user: "bob", password: "right", code: CodeAuthenticationFailed},
		{name: "by a mechanism it does not know", user: "ann", password: "right", params: "authMechanism=PLAIN",
			code: CodeMechanismUnavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			drivers(t, func(t *testing.T, d driver) {
				test.options.Users = map[string]string{"ann": "right"}
				s := Start(t, test.options)
				c := d.connect(t, s.UserURI(test.user, test.password, test.params), nil)
				if err := c.insert(1); c.code(err) != test.code {
					t.Errorf("got %v, want code %d", err, test.code)
				}
				for _, log := range s.Conns() {
					if log.User != "" || log.Count("insert") > 0 {
						t.Errorf("connection %+v got in", log)
					}
				}
			})
		})
	}
}

func TestCommandsNeedALogin(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		s := Start(t, Options{Users: map[string]string{"ann": "right"}})
		c := d.connect(t, s.URI(""), nil)
		if err := c.ping(); err != nil {
			t.Error(err)
		}
		if err := c.findOne(1); c.code(err) != CodeUnauthorized {
			t.Errorf("got %v, want code %d", err, CodeUnauthorized)
		}
	})
}

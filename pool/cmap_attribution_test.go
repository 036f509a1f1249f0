package pool_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

// TestAttribution checks against the server's own account which dial became which connection, and which command ran on it, over churned
// connections with several in the making at once. The oracle: the server numbers its connections and logs the port of each client; the
// driver reports that number with each command; and only a pool's connection logs in.
//
// It makes as many connections a setting as churned says.
func TestAttribution(t *testing.T) {
	many := churned()
	drivers(t, func(t *testing.T, d driver) {
		for _, c := range []churn{
			{name: "maxConnecting=2", maxConnecting: 2, dials: many},
			{name: "maxConnecting=10", maxConnecting: 10, dials: many},
			{name: "kills", maxConnecting: 4, dials: many / 2, kills: true},
			{name: "shared options", maxConnecting: 4, dials: many / 2, shared: true},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, d) })
		}
	})
}

// The events of clients made from one set of options name their connections alike. Whose a command is, the wire tells.
func TestMongoClientsOfOneSetOfOptions(t *testing.T) {
	drivers(t, func(t *testing.T, d driver) {
		for _, how := range []struct{ secure, statements bool }{{}, {secure: true}, {statements: true}} {
			secure := how.secure
			ca := certtest.NewCA(certtest.ECDSA)
			opts := mongotest.Options{Users: map[string]string{"u": "p"}}
			u := user{}
			if secure {
				opts.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(certtest.Leaf{}).TLS}}
				u.tls = &tls.Config{RootCAs: ca.Pool()}
			}
			s := mongotest.Start(t, opts)
			o := newOracle()
			u.dial, u.command = o.dial, o.command
			p := &profiler.Profiler{Statements: how.statements, Sinks: []profiler.Sink{o}}
			clients := []client{d.connect(t, p, s.UserURI("u", "p", "maxConnecting=10"), u)}
			for len(clients) < 5 {
				clients = append(clients, clients[0].again(t))
			}
			var all sync.WaitGroup
			for _, cl := range clients {
				for range 6 {
					all.Go(func() {
						for range 20 {
							if err := cl.find(o.operation(testContext(t)), 1); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
			for _, cl := range clients {
				cl.close()
			}
			r := o.compare(t, s.Conns())
			if r.wrong != 0 || r.missing != 0 || r.commands != 600 || p.Report().Dropped.Operations != 0 {
				t.Errorf("%+v: %v, %d dropped", how, r, p.Report().Dropped.Operations)
			}
		}
	})
}

// churned is how many connections come and go: 1,000, or what CONNPROF_CHURN says.
func churned() int {
	if n, err := strconv.Atoi(os.Getenv("CONNPROF_CHURN")); err == nil {
		return n
	}
	return 1000
}

// churn is a load under which connections come and go: clients whose goroutines come in bursts, farther apart than maxIdleTimeMS.
type churn struct {
	name          string
	maxConnecting int
	dials         int
	kills         bool // the server keeps closing connections, in use or not
	shared        bool // all clients are made from one set of options: not everything can be told, but nothing must be wrong
}

const (
	churnClients    = 4
	churnGoroutines = 30
)

func (c churn) run(t *testing.T, d driver) {
	s := mongotest.Start(t, mongotest.Options{
		Users: map[string]string{"u": "p"}, Streaming: true,
		Script: mongotest.On("find", mongotest.Step{Delay: 2 * time.Millisecond}),
	})
	o := newOracle()
	p := &profiler.Profiler{Sinks: []profiler.Sink{o}}
	ctx := testContext(t)
	uri := s.UserURI("u", "p", fmt.Sprintf("maxConnecting=%d&minPoolSize=3&maxIdleTimeMS=15&heartbeatFrequencyMS=500", c.maxConnecting))

	var all sync.WaitGroup
	var clients []client
	for i := range churnClients {
		making := new(making)
		var cl client
		if c.shared && i > 0 {
			cl = clients[0].again(t)
		} else {
			cl = d.connect(t, p, uri, user{dial: o.dial, command: o.command, event: making.event})
		}
		clients = append(clients, cl)
		o.makings = append(o.makings, making)
		all.Go(func() {
			for o.count() < c.dials && ctx.Err() == nil && !t.Failed() {
				var burst sync.WaitGroup
				for range churnGoroutines {
					burst.Go(func() {
						if err := cl.find(o.operation(ctx), 1); err != nil && !c.kills {
							t.Error(err)
						}
					})
				}
				if c.kills {
					time.Sleep(5 * time.Millisecond)
					s.Kill(func(l mongotest.ConnLog) bool { return l.ID%3 == 0 })
				}
				burst.Wait()
				time.Sleep(16 * time.Millisecond) // until all are idle for too long: this is the driver's clock, not ours
			}
		})
	}
	all.Wait()
	for _, cl := range clients {
		cl.close()
	}
	p.Flush()

	r := o.compare(t, s.Conns())
	t.Log(r)
	fmt.Printf("attribution driver=%s %s: %v\n", d.name, c.name, r)
	// Connections of one set of options can be in doubt that were made before its second client was, and those beside one whose close was. They
	// are few: without the wire's word two thirds were missing, with it up to 8 in 100 on a busy machine under the race detector.
	if r.missing != 0 && !c.shared || r.missing*3 > r.commands {
		t.Errorf("%d operations of %d are missing", r.missing, r.commands)
	}
	if r.wrong != 0 || r.unattributed != 0 {
		t.Errorf("%d wrong, %d unattributed", r.wrong, r.unattributed)
	}
	if r.pool+r.monitor != r.dials || r.dials < c.dials {
		t.Errorf("%d dials, of which %d for pools and %d for monitors", r.dials, r.pool, r.monitor)
	}
	if r.overlapping < r.pool/4 {
		t.Errorf("only %d of %d creates overlapped another of the same client: this shows little", r.overlapping, r.pool)
	}
	e := p.Report().Endpoint(s.Addr(), profiler.RolePool)
	if int(e.Created+e.Failed) != r.pool || e.Live != 0 || e.Closed != e.Created {
		t.Errorf("%d created, %d failed, %d closed, %d live; %d were dialed", e.Created, e.Failed, e.Closed, e.Live, r.pool)
	}
}

// oracle collects what the dialer below connprof saw, what the driver says of each command, and what connprof reports of it.
type oracle struct {
	mu      sync.Mutex
	dials   []dialed
	ops     int
	want    map[int][]int64          // mu: by operation, the server's numbers of the connections its commands ran on
	got     map[int][]*profiler.Conn // mu: by operation, the connections that connprof names
	makings []*making
}

type dialed struct {
	conn  *profiler.Conn
	local string
}

func newOracle() *oracle {
	return &oracle{want: make(map[int][]int64), got: make(map[int][]*profiler.Conn)}
}

func (o *oracle) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		o.mu.Lock()
		o.dials = append(o.dials, dialed{profiler.FromContext(ctx), nc.LocalAddr().String()})
		o.mu.Unlock()
	}
	return nc, err
}

func (o *oracle) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.dials)
}

type operationKey struct{}

func (o *oracle) operation(ctx context.Context) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ops++
	return context.WithValue(ctx, operationKey{}, o.ops)
}

func (o *oracle) command(ctx context.Context, _ string, serverConn int64, _ bool) {
	if op, ok := ctx.Value(operationKey{}).(int); ok {
		o.mu.Lock()
		o.want[op] = append(o.want[op], serverConn)
		o.mu.Unlock()
	}
}

// Record takes connprof's events.
func (o *oracle) Record(ctx context.Context, e profiler.Event) {
	if op, ok := ctx.Value(operationKey{}).(int); ok && e.Kind == profiler.KindOperation {
		o.mu.Lock()
		if e.Op.Lost > 0 { // attempts that are part of this operation: on which connections is not reported
			o.got[op] = append(o.got[op], make([]*profiler.Conn, e.Op.Attempts-1)...)
		}
		o.got[op] = append(o.got[op], e.Conn)
		o.mu.Unlock()
	}
}

type result struct {
	dials, pool, monitor, rtt, wrong, unattributed, commands, overlapping, missing int
}

func (r result) String() string {
	return fmt.Sprintf("dials=%d pool=%d monitor=%d wrong=%d unattributed=%d (rtt=%d overlapping=%d commands=%d missing=%d)",
		r.dials, r.pool, r.monitor, r.wrong, r.unattributed, r.rtt, r.overlapping, r.commands, r.missing)
}

func (o *oracle) compare(t *testing.T, logs []mongotest.ConnLog) result {
	o.mu.Lock()
	defer o.mu.Unlock()
	byPort := make(map[string][]mongotest.ConnLog) // a port may serve twice, in the same order on both sides
	for _, l := range logs {
		byPort[l.Remote] = append(byPort[l.Remote], l)
	}
	var r result
	wrong := func(format string, args ...any) {
		if r.wrong++; r.wrong <= 10 {
			t.Logf(format, args...)
		}
	}
	number := make(map[*profiler.Conn]int64)
	for _, d := range o.dials {
		r.dials++
		if len(byPort[d.local]) == 0 {
			wrong("the server saw no connection from %s", d.local)
			continue
		}
		l := byPort[d.local][0]
		byPort[d.local] = byPort[d.local][1:]
		if d.conn == nil {
			r.unattributed++
			continue
		}
		if number[d.conn] != 0 {
			wrong("two dials for connection %d", d.conn.ID())
		}
		number[d.conn] = l.ID
		isPool := l.Speculative || l.User != ""
		switch d.conn.Role() {
		case profiler.RolePool:
			r.pool++
			if !isPool && len(l.Commands) > 0 {
				wrong("connection %d of the server never logged in: it is not a pool's", l.ID)
			}
		case profiler.RoleMonitor:
			r.monitor++
			if isPool {
				wrong("connection %d of the server logged in: it is not a monitor's", l.ID)
			}
			if d.conn.Kind() == "rtt" {
				r.rtt++
				for _, c := range l.Commands {
					if c.Awaited {
						wrong("connection %d of the server awaited a hello: it is not the round-trip-time monitor's", l.ID)
						break
					}
				}
			}
		default:
			r.unattributed++
		}
	}
	for op, want := range o.want {
		got := o.got[op]
		r.commands += len(want)
		if len(got) != len(want) {
			r.missing += len(want) - len(got)
			continue
		}
		for i := range want {
			if got[i] != nil && number[got[i]] != want[i] {
				wrong("operation %d: ran on connection %d of the server, reported on %d", op, want[i], number[got[i]])
			}
		}
	}
	for _, m := range o.makings {
		r.overlapping += m.overlapping
	}
	return r
}

// making counts a client's creates that overlap another, by its own pool monitor.
type making struct {
	mu          sync.Mutex
	now         map[uint64]bool
	overlapping int
}

func (m *making) event(kind string, id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch kind {
	case "ConnectionCreated":
		if m.now == nil {
			m.now = make(map[uint64]bool)
		}
		if len(m.now) > 0 {
			m.overlapping++
		}
		m.now[id] = true
	case "ConnectionReady", "ConnectionClosed":
		delete(m.now, id)
	}
}

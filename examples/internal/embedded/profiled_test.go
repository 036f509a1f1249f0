package embedded_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/pool/mongoprof"
	"github.com/connprof/connprof/pool/mongov2prof"
	"github.com/connprof/connprof/profiler"
	bsonv1 "go.mongodb.org/mongo-driver/bson"
	eventv1 "go.mongodb.org/mongo-driver/event"
	mongov1 "go.mongodb.org/mongo-driver/mongo"
	optionsv1 "go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/connprof/connprof/examples/internal/embedded"
)

// dialer is what the program had as its own: it sees, below connprof, which dial is said to be for what.
type dialer struct {
	mu    sync.Mutex
	conns []*profiler.Conn // mu
}

func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.conns = append(d.conns, profiler.FromContext(ctx))
	d.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}

// seen is what the driver says of its pool.
type seen struct {
	mu      sync.Mutex
	created int             // mu
	ready   []time.Duration // mu: what the driver says that making a connection took
}

func (s *seen) event(kind string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case "ConnectionCreated":
		s.created++
	case "ConnectionReady":
		s.ready = append(s.ready, d)
	}
}

// profiled is a client of either driver version.
type profiled struct {
	find    func(ctx context.Context) error
	findAll func(ctx context.Context) (int, error) // in batches of 40
	close   func()
}

var profiledDrivers = map[string]func(t *testing.T, p *profiler.Profiler, uri string, d *dialer, s *seen) profiled{
	"driver v1": func(t *testing.T, p *profiler.Profiler, uri string, d *dialer, s *seen) profiled {
		o := optionsv1.Client().ApplyURI(uri).SetDialer(d)
		o.SetPoolMonitor(&eventv1.PoolMonitor{Event: func(e *eventv1.PoolEvent) { s.event(e.Type, e.Duration) }})
		client, err := mongov1.Connect(t.Context(), mongoprof.Instrument(p, o))
		if err != nil {
			t.Fatal(err)
		}
		coll := client.Database(embedded.Database).Collection(embedded.Table)
		return profiled{
			func(ctx context.Context) error {
				return coll.FindOne(ctx, bsonv1.D{{Key: "_id", Value: embedded.Key(7)}}).Err()
			},
			func(ctx context.Context) (int, error) {
				var all []bsonv1.Raw
				cur, err := coll.Find(ctx, bsonv1.D{}, optionsv1.Find().SetBatchSize(40))
				if err == nil {
					err = cur.All(ctx, &all)
				}
				return len(all), err
			},
			func() { _ = client.Disconnect(context.Background()) },
		}
	},
	"driver v2": func(t *testing.T, p *profiler.Profiler, uri string, d *dialer, s *seen) profiled {
		o := options.Client().ApplyURI(uri).SetDialer(d)
		o.SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) { s.event(e.Type, e.Duration) }})
		client, err := mongo.Connect(mongov2prof.Instrument(p, o))
		if err != nil {
			t.Fatal(err)
		}
		coll := client.Database(embedded.Database).Collection(embedded.Table)
		return profiled{
			func(ctx context.Context) error {
				return coll.FindOne(ctx, bson.D{{Key: "_id", Value: embedded.Key(7)}}).Err()
			},
			func(ctx context.Context) (int, error) {
				var all []bson.Raw
				cur, err := coll.Find(ctx, bson.D{}, options.Find().SetBatchSize(40))
				if err == nil {
					err = cur.All(ctx, &all)
				}
				return len(all), err
			},
			func() { _ = client.Disconnect(context.Background()) },
		}
	},
}

// A real server and both drivers, TLS off and on: every dial has its role, every create its phases, every command its connection.
func TestMongoProfiled(t *testing.T) {
	server := startMongo(t)
	for driver, connect := range profiledDrivers {
		for name, tls := range map[string]bool{"TLS off": false, "TLS on": true} {
			t.Run(driver+", "+name, func(t *testing.T) {
				address := server.Addr
				if tls {
					address = server.TLSAddr
				}
				with := func(params string) string {
					if tls {
						return server.URI(true) + "&" + params
					}
					return server.URI(false) + "?" + params
				}
				t.Run("attribution", func(t *testing.T) { attributed(t, connect, with, address) })
				t.Run("one connection", func(t *testing.T) { oneConnection(t, connect, with, address, tls) })
			})
		}
	}
}

type connecting = func(t *testing.T, p *profiler.Profiler, uri string, d *dialer, s *seen) profiled

// attributed lets connections come and go, many at a time.
func attributed(t *testing.T, connect connecting, with func(string) string, address string) {
	p, d, s := new(profiler.Profiler), new(dialer), new(seen)
	c := connect(t, p, with("maxConnecting=8&maxIdleTimeMS=5&heartbeatFrequencyMS=500"), d, s)
	const rounds, callers = 5, 20
	for range rounds {
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if err := c.find(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(6 * time.Millisecond) // until all are idle for too long: the driver's clock
	}
	c.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	roles := make(map[profiler.Role]int)
	once := make(map[*profiler.Conn]bool)
	for _, conn := range d.conns {
		roles[conn.Role()]++
		once[conn] = true
		if conn.Role() == profiler.RoleMonitor && conn.Kind() != "heartbeat" { // FerretDB does not stream: there is no other
			t.Errorf("a monitor of kind %q", conn.Kind())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if roles[profiler.RolePool] != s.created || roles[profiler.RoleMonitor] != 1 || len(roles) != 2 || len(once) != len(d.conns) {
		t.Errorf("dials by role: %v; the driver's pool made %d", roles, s.created)
	}
	e := p.Report().Endpoint(address, profiler.RolePool)
	first, reused := e.Queries()
	if int(e.Created+e.Failed) != s.created || first+reused != rounds*callers || int64(first) > e.Created {
		t.Errorf("%d created, %d failed of %d; %d first, %d reused of %d", e.Created, e.Failed, s.created, first, reused, rounds*callers)
	}
}

// oneConnection looks at one connection and its commands, for which callers wait.
func oneConnection(t *testing.T, connect connecting, with func(string) string, address string, tls bool) {
	var tl profiler.Timeline
	p, d, s := &profiler.Profiler{Sinks: []profiler.Sink{&tl}}, new(dialer), new(seen)
	c := connect(t, p, with("maxPoolSize=1"), d, s)
	asked := time.Now()
	if err := c.find(profiler.Asked(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n, err := c.findAll(t.Context()); n != embedded.Rows || err != nil {
		t.Fatal(n, err)
	}
	var all sync.WaitGroup
	for range 4 { // for the one connection
		all.Go(func() {
			if err := c.find(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	c.close()
	var ops []profiler.Operation
	for _, e := range tl.Events() {
		if e.Kind == profiler.KindOperation {
			ops = append(ops, e.Op)
		}
		if e.Kind != profiler.KindCreate {
			continue
		}
		cr := e.Conn.Create()
		sum := time.Duration(0)
		for _, sp := range cr.Phases {
			sum += sp.Duration
		}
		if sum != cr.Duration || cr.Phases[profiler.TLS].Present != tls || cr.Phases[profiler.Verify].Present != tls || cr.TLS.Done != tls ||
			!cr.Phases[profiler.Connect].Present || !cr.Phases[profiler.Hello].Present || cr.Phases[profiler.Auth].Present {
			t.Errorf("%s: phases %v, which sum to %v, of %v", e.Conn.Role(), cr.Phases, sum, cr.Duration)
		}
		// The driver's clock runs inside ours; the scheduler may come between, so that only one side is exact.
		if e.Conn.Role() == profiler.RolePool && (len(s.ready) != 1 || cr.Duration < s.ready[0]-time.Millisecond) {
			t.Errorf("create %v, the driver says %v", cr.Duration, s.ready)
		}
	}
	first, last := ops[0], ops[len(ops)-5] // before the four
	create := p.Report().Endpoint(address, profiler.RolePool).Measure(profiler.MeasureCreate, profiler.OK)
	if first.Name != "find" || first.N != 1 || !first.WaitKnown || first.Wait < create.Sum || first.Queued > first.Wait-create.Sum+time.Millisecond {
		t.Errorf("first %+v; the create took %v", first, create.Sum)
	}
	if !first.SelectionKnown || first.Selection <= 0 || first.Selection+first.Wait > first.Start.Sub(asked) {
		t.Errorf("selection %v, known %v, wait %v", first.Selection, first.SelectionKnown, first.Wait)
	}
	for _, op := range ops {
		if !op.WaitKnown || op.Queued > op.Wait || op.Attempts != 1 {
			t.Errorf("%s: wait %v (known: %v), queued %v, %d attempts", op.Name, op.Wait, op.WaitKnown, op.Queued, op.Attempts)
		}
	}
	if last.Name != "getMore" || last.N != uint64(len(ops)-4) || last.Cursor != 0 || last.Collection != embedded.Table || ops[1].Cursor == 0 {
		t.Errorf("last of %d: %+v", len(ops), last)
	}
}

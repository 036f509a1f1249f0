package pool_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/connprof/connprof/pool/mongoprof"
	"github.com/connprof/connprof/pool/mongov2prof"
	"github.com/connprof/connprof/profiler"
	bson1 "go.mongodb.org/mongo-driver/bson"
	event1 "go.mongodb.org/mongo-driver/event"
	mongo1 "go.mongodb.org/mongo-driver/mongo"
	options1 "go.mongodb.org/mongo-driver/mongo/options"
	readpref1 "go.mongodb.org/mongo-driver/mongo/readpref"
	writeconcern1 "go.mongodb.org/mongo-driver/mongo/writeconcern"
	bson2 "go.mongodb.org/mongo-driver/v2/bson"
	event2 "go.mongodb.org/mongo-driver/v2/event"
	mongo2 "go.mongodb.org/mongo-driver/v2/mongo"
	options2 "go.mongodb.org/mongo-driver/v2/mongo/options"
	readpref2 "go.mongodb.org/mongo-driver/v2/mongo/readpref"
	writeconcern2 "go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.uber.org/goleak"
)

// drivers runs f with each of the two driver versions: one suite for both adapters.
func drivers(t *testing.T, f func(t *testing.T, d driver)) {
	for _, d := range []driver{{"v1", connectV1}, {"v2", connectV2}} {
		t.Run(d.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
			f(t, d)
		})
	}
}

type driver struct {
	name    string
	connect func(t testing.TB, p *profiler.Profiler, uri string, u user) client
}

// user is what a program has in its options besides the URI. Every field may be nil.
type user struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	around  func(dialer) dialer // wraps the instrumented dialer
	event   func(kind string, id uint64)
	command func(ctx context.Context, name string, serverConn int64, err bool)
	tls     *tls.Config
	noOCSP  bool                      // SetDisableOCSPEndpointCheck
	http    *http.Client              // for OCSP
	ready   func(d time.Duration)     // ConnectionReady's Duration
	started func(ctx context.Context) // CommandMonitor.Started
	prefer  bool                      // read preference secondary
}

type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// client is what the tests need of a driver's client.
type client interface {
	ping(ctx context.Context) error
	insert(ctx context.Context, id int) error
	updateMany(ctx context.Context) error
	runFind(ctx context.Context) error // through RunCommand
	unacknowledged(ctx context.Context, id int) error
	find(ctx context.Context, id int) error
	findAll(ctx context.Context, batch int32) (n int, err error)
	close()                    // may be called again
	again(t testing.TB) client // another client of the same, instrumented options
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

type clientV1 struct {
	coll *mongo1.Collection
	o    *options1.ClientOptions
}

func connectV1(t testing.TB, p *profiler.Profiler, uri string, u user) client {
	t.Helper()
	o := options1.Client().ApplyURI(uri)
	if u.dial != nil {
		o.SetDialer(dialFunc(u.dial))
	}
	if u.tls != nil {
		o.SetTLSConfig(u.tls)
	}
	if u.event != nil {
		o.SetPoolMonitor(&event1.PoolMonitor{Event: func(e *event1.PoolEvent) { u.event(e.Type, e.ConnectionID) }})
		o.SetServerMonitor(&event1.ServerMonitor{
			ServerOpening:            func(*event1.ServerOpeningEvent) { u.event("ServerOpening", 0) },
			ServerHeartbeatStarted:   func(*event1.ServerHeartbeatStartedEvent) { u.event("ServerHeartbeatStarted", 0) },
			ServerHeartbeatSucceeded: func(*event1.ServerHeartbeatSucceededEvent) { u.event("ServerHeartbeatSucceeded", 0) },
			ServerHeartbeatFailed:    func(*event1.ServerHeartbeatFailedEvent) { u.event("ServerHeartbeatFailed", 0) },
		})
	}
	if u.command != nil {
		o.SetMonitor(&event1.CommandMonitor{
			Succeeded: func(ctx context.Context, e *event1.CommandSucceededEvent) {
				u.command(ctx, e.CommandName, value(e.ServerConnectionID64), false)
			},
			Failed: func(ctx context.Context, e *event1.CommandFailedEvent) {
				u.command(ctx, e.CommandName, value(e.ServerConnectionID64), true)
			},
		})
	}
	o.SetDisableOCSPEndpointCheck(u.noOCSP)
	if u.http != nil {
		o.SetHTTPClient(u.http)
	}
	if u.prefer {
		o.SetReadPreference(readpref1.Secondary())
	}
	if u.ready != nil {
		o.SetPoolMonitor(&event1.PoolMonitor{Event: func(e *event1.PoolEvent) {
			if e.Type == event1.ConnectionReady {
				u.ready(e.Duration)
			}
		}})
	}
	if u.started != nil {
		o.SetMonitor(&event1.CommandMonitor{Started: func(ctx context.Context, _ *event1.CommandStartedEvent) { u.started(ctx) }})
	}
	o = mongoprof.Instrument(p, o)
	if u.around != nil {
		o.SetDialer(u.around(o.Dialer))
	}
	return (&clientV1{o: o}).again(t)
}

func (c *clientV1) again(t testing.TB) client {
	m, err := mongo1.Connect(context.Background(), c.o)
	if err != nil {
		t.Fatal(err)
	}
	c = &clientV1{m.Database("test").Collection("things"), c.o}
	t.Cleanup(c.close)
	return c
}

func (c *clientV1) close() { _ = c.coll.Database().Client().Disconnect(context.Background()) }

func (c *clientV1) ping(ctx context.Context) error { return c.coll.Database().Client().Ping(ctx, nil) }

func (c *clientV1) insert(ctx context.Context, id int) error {
	_, err := c.coll.InsertOne(ctx, bson1.D{{Key: "_id", Value: id}})
	return err
}

func (c *clientV1) updateMany(ctx context.Context) error {
	_, err := c.coll.UpdateMany(ctx, bson1.D{}, bson1.D{{Key: "$set", Value: bson1.D{{Key: "n", Value: 1}}}})
	return err
}

func (c *clientV1) runFind(ctx context.Context) error {
	return c.coll.Database().RunCommand(ctx, bson1.D{{Key: "find", Value: "things"}}).Err()
}

func (c *clientV1) unacknowledged(ctx context.Context, id int) error {
	coll, err := c.coll.Clone(options1.Collection().SetWriteConcern(writeconcern1.Unacknowledged()))
	if err != nil {
		return err
	}
	if _, err = coll.InsertOne(ctx, bson1.D{{Key: "_id", Value: id}}); err == mongo1.ErrUnacknowledgedWrite {
		err = nil
	}
	return err
}

func (c *clientV1) find(ctx context.Context, id int) error {
	err := c.coll.FindOne(ctx, bson1.D{{Key: "_id", Value: id}}).Err()
	if err == mongo1.ErrNoDocuments {
		err = nil
	}
	return err
}

func (c *clientV1) findAll(ctx context.Context, batch int32) (int, error) {
	cur, err := c.coll.Find(ctx, bson1.D{}, options1.Find().SetBatchSize(batch))
	if err != nil {
		return 0, err
	}
	var all []bson1.Raw
	err = cur.All(ctx, &all)
	return len(all), err
}

type clientV2 struct {
	coll *mongo2.Collection
	o    *options2.ClientOptions
}

func connectV2(t testing.TB, p *profiler.Profiler, uri string, u user) client {
	t.Helper()
	o := options2.Client().ApplyURI(uri)
	if u.dial != nil {
		o.SetDialer(dialFunc(u.dial))
	}
	if u.tls != nil {
		o.SetTLSConfig(u.tls)
	}
	if u.event != nil {
		o.SetPoolMonitor(&event2.PoolMonitor{Event: func(e *event2.PoolEvent) { u.event(e.Type, uint64(e.ConnectionID)) }})
		o.SetServerMonitor(&event2.ServerMonitor{
			ServerOpening:            func(*event2.ServerOpeningEvent) { u.event("ServerOpening", 0) },
			ServerHeartbeatStarted:   func(*event2.ServerHeartbeatStartedEvent) { u.event("ServerHeartbeatStarted", 0) },
			ServerHeartbeatSucceeded: func(*event2.ServerHeartbeatSucceededEvent) { u.event("ServerHeartbeatSucceeded", 0) },
			ServerHeartbeatFailed:    func(*event2.ServerHeartbeatFailedEvent) { u.event("ServerHeartbeatFailed", 0) },
		})
	}
	if u.command != nil {
		o.SetMonitor(&event2.CommandMonitor{
			Succeeded: func(ctx context.Context, e *event2.CommandSucceededEvent) {
				u.command(ctx, e.CommandName, value(e.ServerConnectionID), false)
			},
			Failed: func(ctx context.Context, e *event2.CommandFailedEvent) {
				u.command(ctx, e.CommandName, value(e.ServerConnectionID), true)
			},
		})
	}
	o.SetDisableOCSPEndpointCheck(u.noOCSP)
	if u.http != nil {
		o.SetHTTPClient(u.http)
	}
	if u.prefer {
		o.SetReadPreference(readpref2.Secondary())
	}
	if u.ready != nil {
		o.SetPoolMonitor(&event2.PoolMonitor{Event: func(e *event2.PoolEvent) {
			if e.Type == event2.ConnectionReady {
				u.ready(e.Duration)
			}
		}})
	}
	if u.started != nil {
		o.SetMonitor(&event2.CommandMonitor{Started: func(ctx context.Context, _ *event2.CommandStartedEvent) { u.started(ctx) }})
	}
	o = mongov2prof.Instrument(p, o)
	if u.around != nil {
		o.SetDialer(u.around(o.Dialer))
	}
	return (&clientV2{o: o}).again(t)
}

func (c *clientV2) again(t testing.TB) client {
	m, err := mongo2.Connect(c.o)
	if err != nil {
		t.Fatal(err)
	}
	c = &clientV2{m.Database("test").Collection("things"), c.o}
	t.Cleanup(c.close)
	return c
}

func (c *clientV2) close() { _ = c.coll.Database().Client().Disconnect(context.Background()) }

func (c *clientV2) ping(ctx context.Context) error { return c.coll.Database().Client().Ping(ctx, nil) }

func (c *clientV2) insert(ctx context.Context, id int) error {
	_, err := c.coll.InsertOne(ctx, bson2.D{{Key: "_id", Value: id}})
	return err
}

func (c *clientV2) updateMany(ctx context.Context) error {
	_, err := c.coll.UpdateMany(ctx, bson2.D{}, bson2.D{{Key: "$set", Value: bson2.D{{Key: "n", Value: 1}}}})
	return err
}

func (c *clientV2) runFind(ctx context.Context) error {
	return c.coll.Database().RunCommand(ctx, bson2.D{{Key: "find", Value: "things"}}).Err()
}

func (c *clientV2) unacknowledged(ctx context.Context, id int) error {
	coll := c.coll.Clone(options2.Collection().SetWriteConcern(writeconcern2.Unacknowledged()))
	_, err := coll.InsertOne(ctx, bson2.D{{Key: "_id", Value: id}})
	return err
}

func (c *clientV2) find(ctx context.Context, id int) error {
	err := c.coll.FindOne(ctx, bson2.D{{Key: "_id", Value: id}}).Err()
	if err == mongo2.ErrNoDocuments {
		err = nil
	}
	return err
}

func (c *clientV2) findAll(ctx context.Context, batch int32) (int, error) {
	cur, err := c.coll.Find(ctx, bson2.D{}, options2.Find().SetBatchSize(batch))
	if err != nil {
		return 0, err
	}
	var all []bson2.Raw
	err = cur.All(ctx, &all)
	return len(all), err
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

package mongotest

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	bson2 "go.mongodb.org/mongo-driver/v2/bson"
	event2 "go.mongodb.org/mongo-driver/v2/event"
	mongo2 "go.mongodb.org/mongo-driver/v2/mongo"
	options2 "go.mongodb.org/mongo-driver/v2/mongo/options"
	driver2 "go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	driver1 "go.mongodb.org/mongo-driver/x/mongo/driver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drivers runs f with each of the two drivers.
func drivers(t *testing.T, f func(t *testing.T, d driver)) {
	t.Run("v1", func(t *testing.T) { f(t, driver{"v1", connectV1}) })
	t.Run("v2", func(t *testing.T) { f(t, driver{"v2", connectV2}) })
}

// driver is one of the two drivers. Its clients are disconnected when the test ends, before a server that was started earlier stops.
type driver struct {
	name    string
	connect func(t *testing.T, uri string, tlsConfig *tls.Config) client
}

// client is what the tests need of a driver's client.
type client interface {
	ping() error
	insert(ids ...int) error
	findOne(id int) error
	findAll(batch int32) (n int, err error)
	abandon(batch int32) error // find, read one document, close the cursor
	count() (int64, error)
	commands() []command
	code(err error) int // of a server's error that the tests expect; 0 for others
}

// command is a finished command as the driver's CommandMonitor reports it.
type command struct {
	name   string
	conn   int64 // ServerConnectionID
	failed bool
}

type recorder struct {
	mu   sync.Mutex
	list []command
}

func (r *recorder) add(name string, conn *int64, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := command{name: name, failed: failed}
	if conn != nil {
		c.conn = *conn
	}
	r.list = append(r.list, c)
}

func (r *recorder) commands() []command {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]command(nil), r.list...)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

type clientV1 struct {
	recorder
	ctx  context.Context
	coll *mongo.Collection
}

func connectV1(t *testing.T, uri string, tlsConfig *tls.Config) client {
	t.Helper()
	c := &clientV1{ctx: testContext(t)}
	o := options.Client().ApplyURI(uri).SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			c.add(e.CommandName, e.ServerConnectionID64, false)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			c.add(e.CommandName, e.ServerConnectionID64, true)
		},
	})
	if tlsConfig != nil {
		o.SetTLSConfig(tlsConfig)
	}
	m, err := mongo.Connect(c.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Disconnect(context.Background()) })
	c.coll = m.Database("test").Collection("things")
	return c
}

func (c *clientV1) ping() error { return c.coll.Database().Client().Ping(c.ctx, nil) }

func (c *clientV1) insert(ids ...int) error {
	var docs []any
	for _, id := range ids {
		docs = append(docs, bson.D{{Key: "_id", Value: id}})
	}
	_, err := c.coll.InsertMany(c.ctx, docs)
	return err
}

func (c *clientV1) findOne(id int) error {
	return c.coll.FindOne(c.ctx, bson.D{{Key: "_id", Value: id}}).Err()
}

func (c *clientV1) findAll(batch int32) (int, error) {
	cur, err := c.coll.Find(c.ctx, bson.D{}, options.Find().SetBatchSize(batch))
	if err != nil {
		return 0, err
	}
	var docs []bson.D
	err = cur.All(c.ctx, &docs)
	return len(docs), err
}

func (c *clientV1) abandon(batch int32) error {
	cur, err := c.coll.Find(c.ctx, bson.D{}, options.Find().SetBatchSize(batch))
	if err != nil {
		return err
	}
	cur.Next(c.ctx)
	return cur.Close(c.ctx)
}

func (c *clientV1) count() (int64, error) { return c.coll.CountDocuments(c.ctx, bson.D{}) }

func (c *clientV1) code(err error) int {
	var ce mongo.CommandError
	var se mongo.ServerError
	var de driver1.Error // what a login fails with
	switch {
	case errors.As(err, &ce):
		return int(ce.Code)
	case errors.As(err, &de):
		return int(de.Code)
	case errors.As(err, &se) && se.HasErrorCode(CodeDuplicateKey):
		return CodeDuplicateKey
	}
	return 0
}

type clientV2 struct {
	recorder
	ctx  context.Context
	coll *mongo2.Collection
}

func connectV2(t *testing.T, uri string, tlsConfig *tls.Config) client {
	t.Helper()
	c := &clientV2{ctx: testContext(t)}
	o := options2.Client().ApplyURI(uri).SetMonitor(&event2.CommandMonitor{
		Succeeded: func(_ context.Context, e *event2.CommandSucceededEvent) {
			c.add(e.CommandName, e.ServerConnectionID, false)
		},
		Failed: func(_ context.Context, e *event2.CommandFailedEvent) {
			c.add(e.CommandName, e.ServerConnectionID, true)
		},
	})
	if tlsConfig != nil {
		o.SetTLSConfig(tlsConfig)
	}
	m, err := mongo2.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Disconnect(context.Background()) })
	c.coll = m.Database("test").Collection("things")
	return c
}

func (c *clientV2) ping() error { return c.coll.Database().Client().Ping(c.ctx, nil) }

func (c *clientV2) insert(ids ...int) error {
	var docs []any
	for _, id := range ids {
		docs = append(docs, bson2.D{{Key: "_id", Value: id}})
	}
	_, err := c.coll.InsertMany(c.ctx, docs)
	return err
}

func (c *clientV2) findOne(id int) error {
	return c.coll.FindOne(c.ctx, bson2.D{{Key: "_id", Value: id}}).Err()
}

func (c *clientV2) findAll(batch int32) (int, error) {
	cur, err := c.coll.Find(c.ctx, bson2.D{}, options2.Find().SetBatchSize(batch))
	if err != nil {
		return 0, err
	}
	var docs []bson2.D
	err = cur.All(c.ctx, &docs)
	return len(docs), err
}

func (c *clientV2) abandon(batch int32) error {
	cur, err := c.coll.Find(c.ctx, bson2.D{}, options2.Find().SetBatchSize(batch))
	if err != nil {
		return err
	}
	cur.Next(c.ctx)
	return cur.Close(c.ctx)
}

func (c *clientV2) count() (int64, error) { return c.coll.CountDocuments(c.ctx, bson2.D{}) }

func (c *clientV2) code(err error) int {
	var ce mongo2.CommandError
	var se mongo2.ServerError
	var de driver2.Error // what a login fails with
	switch {
	case errors.As(err, &ce):
		return int(ce.Code)
	case errors.As(err, &de):
		return int(de.Code)
	case errors.As(err, &se) && se.HasErrorCode(CodeDuplicateKey):
		return CodeDuplicateKey
	}
	return 0
}

package oteltrace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/connprof/connprof/profiler"
)

// The shapes that traces have. Times are milliseconds since the test began: begin+duration.
var catalog = profiler.Endpoint{System: "mongodb", Address: "mongo.internal:27017"}

// command runs a command of 2 ms, which repeats the one that failed.
func command(ctx context.Context, c *profiler.Conn, failed *profiler.Op) {
	var o profiler.Op
	start := profiler.Now()
	time.Sleep(2 * ms)
	c.BeginSelected(&o, ctx, profiler.OpCommand, start)
	o.Name, o.NS = "find", "catalog"
	if failed != nil {
		o.Repeats(failed)
	}
	o.End(ctx, profiler.Now(), nil)
}

func TestShapes(t *testing.T) {
	bg := context.Background()
	for _, tt := range []struct {
		name string
		run  func(r *rig)
		want string
	}{
		{"a connection made by the caller is a child, with its phases, before the query", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			c := r.pooled(ctx, secured...)
			query(ctx, c, 5*ms)
			span.End()
		}, `
GET / 0+30
  connection_setup db.internal:3306 0+20
    resolve 0+2
    connect 2+3
    greet 5+1
    tls 6+8
    verify 14+0
    auth+setup 14+4
  SELECT cart 20+10 [client] → connection_setup db.internal:3306
`},
		{"a reused connection links to its connection in the other trace", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /1")
			c := r.pooled(ctx, plain...)
			query(ctx, c, 1*ms)
			span.End()
			time.Sleep(100 * ms)
			ctx, span = r.tracer.Start(bg, "GET /2")
			query(ctx, c, 1*ms)
			span.End()
		}, `
GET /1 0+12
  connection_setup db.internal:3306 0+10
    resolve 0+2
    connect 2+3
    greet 5+1
    auth 6+4
  SELECT cart 10+2 [client] → connection_setup db.internal:3306
GET /2 112+2
  SELECT cart 112+2 [client] → connection_setup db.internal:3306
`},
		{"a background create belongs to the caller who asked before it began, whose wait ends there", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			time.Sleep(1 * ms)
			ctx = profiler.Asked(ctx)
			time.Sleep(6 * ms)
			c := r.pooled(noCaller, plain...)
			time.Sleep(1 * ms)
			query(ctx, c, 5*ms)
			span.End()
		}, `
GET / 0+28
  wait_for_connection 1+6
  connection_setup db.internal:3306 7+10
    resolve 7+2
    connect 9+3
    greet 12+1
    auth 13+4
  SELECT cart 18+10 [client] → connection_setup db.internal:3306
`},
		{"a background create that began before its first user asked is a root", func(r *rig) {
			c := r.make(shop, profiler.RolePool, plain...)
			ctx, span := r.tracer.Start(bg, "GET /")
			ctx = profiler.Asked(ctx)
			time.Sleep(3 * ms)
			c.Ready(noCaller)
			query(ctx, c, 5*ms)
			span.End()
		}, `
connection_setup db.internal:3306 0+13
  resolve 0+2
  connect 2+3
  greet 5+1
  auth 6+4
GET / 10+13
  wait_for_connection 10+3
  SELECT cart 13+10 [client] → connection_setup db.internal:3306
`},
		{"a background create whose first user's wait is not known is a root", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			c := r.pooled(noCaller, step{profiler.Connect, 3 * ms})
			query(ctx, c, 5*ms)
			span.End()
		}, `
connection_setup db.internal:3306 0+3
  connect 0+3
GET / 0+13
  SELECT cart 3+10 [client] → connection_setup db.internal:3306
`},
		{"a background create whose first user has no span is a root, and so is the query", func(r *rig) {
			ctx := profiler.Asked(bg)
			time.Sleep(5 * ms)
			c := r.pooled(noCaller, step{profiler.Connect, 3 * ms})
			query(ctx, c, 5*ms)
		}, `
connection_setup db.internal:3306 5+3
  connect 5+3
SELECT cart 8+10 [client] → connection_setup db.internal:3306
`},
		{"a create that fails under a caller is a child in error, and so is the phase", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			c := r.make(shop, profiler.RolePool, plain...)
			c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Auth })
			c.Fail(ctx, errors.New("Access denied for user 'bob'@'10.0.0.1'"))
			span.End()
		}, `
GET / 0+10
  connection_setup db.internal:3306 0+10 error: error in auth: check user, password, the database's name, and that the server lets this client in
    resolve 0+2
    connect 2+3
    greet 5+1
    auth 6+4 error: error
`},
		{"a create that fails in the background is a root at once", func(r *rig) {
			c := r.make(shop, profiler.RolePool, step{profiler.Connect, 5 * ms})
			c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Connect })
			c.Fail(noCaller, context.DeadlineExceeded)
		}, `
connection_setup db.internal:3306 0+5 error: timeout in connect: no answer to the connect: check the address, firewalls and security groups
  connect 0+5 error: timeout
`},
		{"a connection that is never used is a root at its close", func(r *rig) {
			c := r.pooled(noCaller, step{profiler.Connect, 5 * ms})
			time.Sleep(time.Second)
			c.Closed(profiler.CloseIdleTime, nil)
			r.p.Flush()
		}, `
connection_setup db.internal:3306 0+5
  connect 0+5
`},
		{"a wait for a connection in use is a span of its own", func(r *rig) {
			first, other := r.tracer.Start(bg, "GET /1")
			c := r.pooled(first, step{profiler.Connect, 5 * ms})
			query(first, c, 1*ms)
			ctx, span := r.tracer.Start(bg, "GET /2")
			ctx = profiler.Asked(ctx)
			time.Sleep(50 * ms)
			other.End()
			c.CheckedOut(ctx, 0, profiler.Now())
			query(ctx, c, 1*ms)
			span.End()
		}, `
GET /1 0+57
  connection_setup db.internal:3306 0+5
    connect 0+5
  SELECT cart 5+2 [client] → connection_setup db.internal:3306
GET /2 7+52
  wait_for_connection 7+50
  SELECT cart 57+2 [client] → connection_setup db.internal:3306
`},
		{"a wait up to the threshold has none", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			c := r.pooled(ctx, step{profiler.Connect, 5 * ms})
			ctx = profiler.Asked(ctx)
			time.Sleep(1 * ms)
			query(ctx, c, 1*ms)
			span.End()
		}, `
GET / 0+8
  connection_setup db.internal:3306 0+5
    connect 0+5
  SELECT cart 6+2 [client] → connection_setup db.internal:3306
`},
		{"a wait that began before its parent is cut to it", func(r *rig) {
			c := r.pooled(bg, step{profiler.Connect, 5 * ms})
			ctx := profiler.Asked(bg)
			time.Sleep(5 * ms)
			ctx, span := r.tracer.Start(ctx, "GET /")
			time.Sleep(5 * ms)
			query(ctx, c, 1*ms)
			span.End()
		}, `
connection_setup db.internal:3306 0+5
  connect 0+5
GET / 10+7
  wait_for_connection 10+5
  SELECT cart 15+2 [client] → connection_setup db.internal:3306
`},
		{"a create that began before the span it is said to belong to is a root", func(r *rig) {
			c := r.make(shop, profiler.RolePool, step{profiler.Connect, 5 * ms})
			ctx, span := r.tracer.Start(bg, "GET /")
			c.Ready(ctx)
			query(ctx, c, 1*ms)
			span.End()
		}, `
connection_setup db.internal:3306 0+5
  connect 0+5
GET / 5+2
  SELECT cart 5+2 [client] → connection_setup db.internal:3306
`},
		{"a failed operation is in error, in words of its outcome", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			c := r.pooled(ctx)
			for _, err := range []error{errors.New("Duplicate entry 'bob@example.com'"), context.Canceled} {
				o := c.Begin(ctx, profiler.OpExec, profiler.Now())
				time.Sleep(ms)
				o.End(ctx, profiler.Now(), err)
			}
			span.End()
		}, `
GET / 0+2
  connection_setup db.internal:3306 0+0
  exec shop 0+1 [client] error: error → connection_setup db.internal:3306
  exec shop 1+1 [client] error: canceled → connection_setup db.internal:3306
`},
		{"a MongoDB command is named after command and database", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			marked := profiler.Asked(ctx)
			e := profiler.Endpoint{System: "mongodb", Address: "mongo.internal:27017"}
			c := r.make(e, profiler.RolePool, step{profiler.Connect, 1 * ms}, step{profiler.TLS, 4 * ms}, step{profiler.Hello, 2 * ms}, step{profiler.Auth, 5 * ms})
			c.Ready(noCaller)
			c.CheckedOut(marked, 0, profiler.Now())
			o := c.Begin(marked, profiler.OpCommand, profiler.Now())
			o.Name, o.NS = "find", "catalog"
			time.Sleep(2 * ms)
			o.End(marked, profiler.Now(), nil)
			span.End()
		}, `
GET / 0+14
  connection_setup mongo.internal:27017 0+12
    connect 0+1
    tls 1+4
    hello 5+2
    auth 7+5
  find catalog 12+2 [client] → connection_setup mongo.internal:27017
`},
		{"the choice of a MongoDB server comes before the wait for its pool", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			ctx = profiler.Asked(ctx)
			time.Sleep(9 * ms) // the first heartbeat's connection
			asked := profiler.Now()
			time.Sleep(3 * ms) // another creator's turn
			c := r.make(catalog, profiler.RolePool, step{profiler.Connect, 1 * ms}, step{profiler.TLS, 4 * ms}, step{profiler.Hello, 2 * ms})
			c.Ready(noCaller)
			c.CheckedOut(noCaller, asked, profiler.Now())
			command(ctx, c, nil)
			ctx = profiler.Asked(ctx)
			time.Sleep(1 * ms) // no longer than the threshold
			c.CheckedOut(noCaller, profiler.Now(), profiler.Now())
			command(ctx, c, nil)
			span.End()
		}, `
GET / 0+24
  server_selection 0+9
  wait_for_connection 9+3
  connection_setup mongo.internal:27017 12+7
    connect 12+1
    tls 13+4
    hello 17+2
  find catalog 19+2 [client] → connection_setup mongo.internal:27017
  find catalog 22+2 [client] → connection_setup mongo.internal:27017
`},
		{"a choice of a server that began before the parent is cut to it", func(r *rig) {
			c := r.make(catalog, profiler.RolePool, step{profiler.Connect, 5 * ms})
			c.Ready(noCaller)
			ctx := profiler.Asked(bg)
			time.Sleep(5 * ms)
			ctx, span := r.tracer.Start(ctx, "GET /")
			time.Sleep(5 * ms)
			c.CheckedOut(noCaller, profiler.Now(), profiler.Now())
			command(ctx, c, nil)
			span.End()
		}, `
connection_setup mongo.internal:27017 0+5
  connect 0+5
GET / 10+7
  server_selection 10+5
  find catalog 15+2 [client] → connection_setup mongo.internal:27017
`},
		{"of a repeated MongoDB command the choice of a server has no span: it was the first attempt's", func(r *rig) {
			ctx, span := r.tracer.Start(bg, "GET /")
			ctx = profiler.Asked(ctx)
			time.Sleep(9 * ms)
			dead := r.make(catalog, profiler.RolePool)
			dead.Ready(noCaller)
			dead.CheckedOut(noCaller, profiler.Now(), profiler.Now())
			var failed profiler.Op
			dead.BeginSelected(&failed, ctx, profiler.OpCommand, profiler.Now())
			time.Sleep(30 * ms)
			failed.Hold(profiler.Now())
			c := r.make(catalog, profiler.RolePool)
			c.Ready(noCaller)
			c.CheckedOut(noCaller, profiler.Now(), profiler.Now())
			command(ctx, c, &failed)
			span.End()
		}, `
GET / 0+41
  connection_setup mongo.internal:27017 39+0
  find catalog 39+2 [client] → connection_setup mongo.internal:27017
`},
		{"connections that serve no caller are left out", func(r *rig) {
			r.make(shop, profiler.RoleMonitor, plain...).ReadyAlone(profiler.Now())
			c := r.make(shop, profiler.RoleCancel, plain...)
			c.Fail(bg, errors.New("refused"))
		}, "\n"},
		{"connections that serve no caller are roots when asked for", func(r *rig) {
			r.sink.Monitors = true
			ctx, span := r.tracer.Start(bg, "GET /")
			r.make(shop, profiler.RoleCancel, step{profiler.Connect, 5 * ms}).Ready(ctx)
			span.End()
		}, `
connection_setup db.internal:3306 0+5
  connect 0+5
GET / 0+5
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				tt.run(r)
				if got := r.tree(t); got != tt.want {
					t.Errorf("got%swant%s", got, tt.want)
				}
				if n := r.p.Report().SinkPanics; n != 0 {
					t.Errorf("the sink panicked %d times", n)
				}
			})
		})
	}
}

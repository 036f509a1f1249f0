package mongoprof

import (
	"context"
	"net"
	"time"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// Instrument returns a copy of o whose client is profiled by p; o itself is not changed, and nil stands for options.Client(). A nil p
// returns o as it is. What o has of its own keeps working: its dialer dials, inside ours; its pool, command and server monitors receive
// every event, in the same order, on the same goroutine, and after ours, so that their time is not measured (before ours at a
// connection's creation and at a heartbeat's start, for the same reason). CommandMonitor.Started is set only where o's is or p.Statements asks for it.
//
// Options that p instrumented before are taken apart first, so that nothing is recorded twice; monitors that were set on them since are
// kept, and replace the ones they replaced. Make one call for each client: clients that share the result use the same connection
// numbers, and the commands that can't be told apart then (a third to two thirds of them under a load that keeps making connections) are
// not recorded but counted, in Report.Dropped.Operations and as a finding.
func Instrument(p *profiler.Profiler, o *options.ClientOptions) *options.ClientOptions {
	if p == nil {
		return o
	}
	if o == nil {
		o = options.Client()
	}
	c := *o
	undo(p, &c)

	w := &wrapped{dialer: c.Dialer, pool: c.PoolMonitor, command: c.Monitor, server: c.ServerMonitor}
	var dial pool.DialFunc
	if c.Dialer != nil {
		dial = c.Dialer.DialContext
	}
	e := profiler.Endpoint{System: "mongodb"}
	d := &handshake.Dialer{Profiler: p, Endpoint: e, DialFunc: dial}
	w.cmap = &pool.CMAP{Profiler: p, Endpoint: e, Dial: d.DialContext, Unwatched: dial}
	configure(w.cmap, &c)
	w.ourPool = poolMonitor(w.cmap, w.pool)
	w.ourCommand = commandMonitor(w.cmap, w.command)
	w.ourServer = serverMonitor(w.cmap, w.server)

	c.Dialer, c.PoolMonitor, c.Monitor, c.ServerMonitor = w, w.ourPool, w.ourCommand, w.ourServer
	return &c
}

// Connect is mongo.Connect with the options of uri and then opts, the last one winning, instrumented by p. For a mongodb+srv uri it also
// reports what the driver's look-ups of SRV and TXT records took, which happen in here and in no dial: as a create without a total, role
// other, kind "client", whose resolve phase is all of ApplyURI and Connect, an upper bound. (Instrument comes too late to see them.)
// Errors are the driver's own. A nil p profiles nothing.
func Connect(ctx context.Context, p *profiler.Profiler, uri string, opts ...*options.ClientOptions) (*mongo.Client, error) {
	var lookup *profiler.Conn
	if host, ok := pool.SRVHost(uri); ok {
		lookup = p.NewConn(profiler.Endpoint{System: "mongodb", Address: host}, profiler.RoleOther)
		lookup.SetKind("client")
	}
	all := append([]*options.ClientOptions{options.Client().ApplyURI(uri)}, opts...)
	client, err := mongo.Connect(ctx, Instrument(p, options.MergeClientOptions(all...)))
	pool.LookedUp(lookup, err)
	return client, err
}

// configure tells m what the client's options say of its behaviour; the defaults are both drivers'.
func configure(m *pool.CMAP, c *options.ClientOptions) {
	if c.MaxConnecting != nil {
		m.MaxConnecting = int(*c.MaxConnecting)
	}
	m.RetryReads = c.RetryReads == nil || *c.RetryReads
	m.RetryWrites = c.RetryWrites == nil || *c.RetryWrites
	m.Pinning = c.LoadBalanced != nil && *c.LoadBalanced
	m.SelectionTimeout = 30 * time.Second
	if c.ServerSelectionTimeout != nil {
		m.SelectionTimeout = *c.ServerSelectionTimeout
	}
	m.RetryUnlimited = c.Timeout != nil
}

// wrapped is the dialer of instrumented options. It knows what they were before.
type wrapped struct {
	cmap *pool.CMAP

	dialer  options.ContextDialer
	pool    *event.PoolMonitor
	command *event.CommandMonitor
	server  *event.ServerMonitor

	ourPool    *event.PoolMonitor
	ourCommand *event.CommandMonitor
	ourServer  *event.ServerMonitor
}

var _ options.ContextDialer = (*wrapped)(nil)

// DialContext dials for the driver.
func (w *wrapped) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return w.cmap.DialContext(ctx, network, address)
}

// undo takes p's instrumentation off c.
func undo(p *profiler.Profiler, c *options.ClientOptions) {
	for {
		w, ok := c.Dialer.(*wrapped)
		if !ok || w.cmap.Profiler != p {
			return
		}
		c.Dialer = w.dialer
		if c.PoolMonitor == w.ourPool {
			c.PoolMonitor = w.pool
		}
		if c.Monitor == w.ourCommand {
			c.Monitor = w.command
		}
		if c.ServerMonitor == w.ourServer {
			c.ServerMonitor = w.server
		}
	}
}

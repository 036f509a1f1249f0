package pool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/connprof/connprof/internal/sqlopener"
	"github.com/connprof/connprof/profiler"
)

// Connector is a driver.Connector whose connections are profiled. Its fields must not change once it is in use; its methods may be called
// concurrently.
type Connector struct {
	// Connector is the driver's own. It receives a context that carries the profiler.Conn to a handshake.Dialer, if the driver has a dial
	// hook where one is set; without one a create is one block, of phase other.
	driver.Connector
	// Profiler takes what is measured. With a nil or disabled one Connect is the driver's own.
	Profiler *profiler.Profiler
	// Endpoint is what the connections are counted by.
	Endpoint profiler.Endpoint
	// KeepConn hands out the driver's own driver.Conn, unwrapped: not even sql.Conn.Raw can tell a difference. Creates are measured,
	// operations are not.
	KeepConn bool
	// TurnPerCall says that the driver sends one request and awaits one answer in each Prepare, Exec and Query, of a connection as of a
	// statement, and in each Begin, Commit and Rollback, as go-sql-driver/mysql does: an operation's round trips can then be counted.
	// Otherwise they are known only where they are counted on the wire, which has the last word: of connections that a handshake.Dialer made,
	// and operations that a Sink wants to be told of.
	TurnPerCall bool
	// Limits are those of the DB, where the user tells them.
	Limits Limits

	mu     sync.Mutex
	stop   func()                 // mu: ends the watch of the pool
	closes atomic.Pointer[closes] // nil where the DB is not known: OpenDB makes it known
}

var (
	_ driver.Connector = (*Connector)(nil)
	_ io.Closer        = (*Connector)(nil)
)

// errNotReturned is that of a create whose driver panicked.
var errNotReturned = errors.New("pool: connect: the driver did not return from it")

// Connect makes a connection with the driver's Connector. It returns the driver's own error.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	pc := c.Profiler.NewConn(c.Endpoint, profiler.RolePool)
	if pc == nil {
		return c.Connector.Connect(ctx)
	}
	c.closes.Load().poll()
	caller := ctx
	if sqlopener.Background() {
		caller = profiler.NoCaller
	}
	returned := false
	defer func() {
		if !returned { // a panic passes, or the goroutine ends
			pc.Fail(caller, errNotReturned)
		}
	}()
	dc, err := c.Connector.Connect(profiler.NewContext(ctx, pc))
	returned = true
	if err != nil {
		pc.Fail(caller, err)
		return dc, err
	}
	if c.KeepConn {
		pc.CloseWithWire()
		pc.Ready(caller)
		return dc, nil
	}
	meter := pc.Meter()
	pc.Ready(caller)
	return wrapConn(dc, pc, c, meter), nil
}

// Driver is the driver's own.
func (c *Connector) Driver() driver.Driver { return c.Connector.Driver() }

// Close is called by sql.DB.Close. It ends the watch of the pool and closes the driver's Connector, if that can be closed.
func (c *Connector) Close() error {
	c.mu.Lock()
	stop := c.stop
	c.stop = nil
	c.mu.Unlock()
	c.closes.Load().end()
	if stop != nil {
		stop()
	}
	c.Profiler.Flush()
	if cl, ok := c.Connector.(io.Closer); ok {
		return cl.Close()
	}
	return nil
}

// OpenDB is sql.OpenDB with connections that are profiled and a pool that is included in reports until the DB is closed. A nil Profiler
// wraps nothing. If c is a *Connector, it is used as it is, and its own Profiler counts its connections; any other is counted by the type of
// its driver.
func OpenDB(p *profiler.Profiler, c driver.Connector) *sql.DB {
	if p == nil {
		return sql.OpenDB(c)
	}
	pc, ok := c.(*Connector)
	if !ok {
		pc = &Connector{
			Connector: c, Profiler: p,
			Endpoint: profiler.Endpoint{System: "other_sql", Address: fmt.Sprintf("%T", c.Driver())},
		}
	}
	pc.mu.Lock()
	used := pc.stop != nil
	pc.mu.Unlock()
	if used { // a second DB of one Connector: each has its own counters and its own end
		pc = &Connector{
			Connector: pc.Connector, Profiler: pc.Profiler, Endpoint: pc.Endpoint, KeepConn: pc.KeepConn,
			Limits: pc.Limits, TurnPerCall: pc.TurnPerCall,
		}
	}
	db := sql.OpenDB(pc)
	name := pc.Endpoint.Pool
	if name == "" {
		name = pc.Endpoint.Address
	}
	cs := &closes{stats: db.Stats, limits: pc.Limits}
	pc.closes.Store(cs)
	stop := p.WatchPool(name, func() profiler.PoolStats { return poolStats(cs.look(), pc.Limits) })
	pc.mu.Lock()
	pc.stop = stop
	pc.mu.Unlock()
	return db
}

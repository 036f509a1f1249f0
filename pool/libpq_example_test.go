package pool_test

import (
	"context"
	"fmt"

	"github.com/lib/pq"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// A database/sql driver that takes a dialer is profiled as a whole: here lib/pq, with a handshake.Dialer. What it dials by itself outside a
// connect are cancel requests. lib/pq's own sql.Open passes no context to a connect, a Connector does; but lib/pq heeds it only while it
// dials, so that connect_timeout is what ends a login that hangs.
//
// Here nobody listens, and the report says what to check.
func ExampleOpenDB_libpq() {
	var p profiler.Profiler
	endpoint := profiler.Endpoint{System: "postgresql", Address: "127.0.0.1:1", Namespace: "shop"}
	c, err := pq.NewConnector("postgres://app:secret@127.0.0.1:1/shop?sslmode=verify-full&connect_timeout=5")
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Dialer(&handshake.Dialer{Profiler: &p, Endpoint: endpoint, Role: profiler.RoleCancel})
	db := pool.OpenDB(&p, &pool.Connector{Connector: c, Profiler: &p, Endpoint: endpoint})
	defer db.Close()

	fmt.Println(db.PingContext(context.Background()) != nil)
	f := p.Report().Failures[0]
	fmt.Println(f.Phase, "failed:", f.Advice)
	// Output:
	// true
	// connect failed: nothing listens there: check host, port, and that the server runs
}

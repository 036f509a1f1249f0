package mysqlprof_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/profiler"
)

// A connection that can't be made says in which phase it failed and what to check.
func ExampleOpen() {
	var p profiler.Profiler
	db, err := mysqlprof.Open(&p, "app:secret@tcp(127.0.0.1:1)/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	err = db.Ping()
	fmt.Println(err)
	f := p.Report().Failures[0]
	fmt.Println(f.Phase, "failed:", f.Advice)
	// Output:
	// dial tcp 127.0.0.1:1: connect: connection refused
	// connect failed: nothing listens there: check host, port, and that the server runs
}

// The story of one request: the wait for the pool, the connection it had to open, its queries.
func ExampleOpen_timeline() {
	var p profiler.Profiler
	plain, err := mysqlprof.Open(&p, os.Getenv("DSN"))
	if err != nil {
		return // no database here
	}
	defer plain.Close()
	db := pool.Wrap(plain) // stamps each call, so that the wait for a connection is known

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var tl profiler.Timeline
	if _, err := db.ExecContext(profiler.WithSink(ctx, &tl), "DO 1"); err != nil {
		return
	}
	tl.WriteTo(os.Stderr)
}

// KeepConn hands out the driver's own connection, for programs that reach it through sql.Conn.Raw: creates are measured, operations not.
func ExampleConnector() {
	var p profiler.Profiler
	cfg := mysql.NewConfig()
	cfg.Addr = "127.0.0.1:1"
	c, err := mysqlprof.Connector(&p, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.(*pool.Connector).KeepConn = true
	db := pool.OpenDB(&p, c)
	defer db.Close()
	fmt.Println(db.Ping() != nil, p.Report().Endpoints[0].FailedIn)
	// Output: true map[connect:1]
}

package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// scale prints what connprof costs with many connections: memory for each, the price of a query by their number, and what is left after
// many have come and gone.
func scale(w io.Writer, churn int) error {
	if err := memory(w, 8000); err != nil {
		return err
	}
	if err := byConnections(w); err != nil {
		return err
	}
	return churned(w, churn)
}

func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what one collection frees may free more in the next
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// memory holds n connections, each used once.
func memory(w io.Writer, n int) error {
	each := func(db database) (int64, error) {
		defer db.Close()
		first, err := hold(db, 10) // what there is once
		if err != nil {
			return 0, err
		}
		defer first.close()
		before := heap()
		conns, err := hold(db, n)
		if err != nil {
			return 0, err
		}
		defer conns.close()
		return (heap() - before) / int64(n), nil
	}
	bare, err := each(sql.OpenDB(noop{}))
	if err != nil {
		return err
	}
	profiled, err := each(connprof(new(profiler.Profiler)))
	if err != nil {
		return err
	}
	var p profiler.Profiler
	before := heap()
	conns := make([]*profiler.Conn, n)
	for i := range conns {
		conns[i] = p.NewConn(endpoint, profiler.RolePool)
		conns[i].Ready(context.Background())
	}
	model := (heap()-before)/int64(n) - 8 // our own pointer
	runtime.KeepAlive(conns)
	fmt.Fprintf(w, "memory per live connection, of %d: %d bytes in the profiler (bound: 1024), %d with the driver.Conn's wrapper; "+
		"database/sql itself %d\n",
		n, model, profiled-bare, bare)
	return nil
}

// held are connections taken from the pool.
type held []*sql.Conn

func hold(db database, n int) (held, error) {
	var h held
	for range n {
		c, err := db.(interface {
			Conn(context.Context) (*sql.Conn, error)
		}).Conn(context.Background())
		if err != nil {
			return h, err
		}
		h = append(h, c)
		if _, err := c.ExecContext(context.Background(), "DO 1"); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (h held) close() {
	for _, c := range h {
		c.Close()
	}
}

// byConnections runs statements on n held connections in turn.
func byConnections(w io.Writer) error {
	const rounds, calls = 15, 20_000
	fmt.Fprintf(w, "\nExecContext on each connection in turn, least ns a call\n")
	for _, n := range []int{10, 100, 1000, 10_000} {
		var least [2]float64
		dbs := [2]database{sql.OpenDB(noop{}), connprof(new(profiler.Profiler))}
		var conns [2]held
		for i, db := range dbs {
			var err error
			if conns[i], err = hold(db, n); err != nil {
				return err
			}
		}
		clocks := []float64{}
		for range rounds {
			clocks = append(clocks, clockRead())
			for i := range dbs {
				next := 0
				s, err := batch(1, calls, func() error {
					_, err := conns[i][next%n].ExecContext(context.Background(), "DO 1")
					next++
					return err
				})
				if err != nil {
					return err
				}
				if least[i] == 0 || s.wall < least[i] {
					least[i] = s.wall
				}
			}
		}
		over := least[1] - least[0]
		fmt.Fprintf(w, "%6d connections: database/sql %.0f, connprof %.0f, over bare %.0f (%.1f clock reads)\n",
			n, least[0], least[1], over, over/slices.Min(clocks))
		for i, db := range dbs {
			conns[i].close()
			db.Close()
		}
	}
	return nil
}

// churned opens and closes n connections and looks at the heap.
func churned(w io.Writer, n int) error {
	p := &profiler.Profiler{Sinks: []profiler.Sink{declines{}}}
	db := pool.Wrap(connprof(p))
	defer db.Close()
	db.SetMaxIdleConns(-1)
	run := func(n int) error {
		for range n {
			if _, err := db.ExecContext(context.Background(), "DO 1"); err != nil {
				return err
			}
		}
		p.Flush()
		return nil
	}
	if err := run(100_000); err != nil {
		return err
	}
	before := heap()
	if err := run(n); err != nil {
		return err
	}
	grown := heap() - before
	r := p.Report()
	e := r.Endpoint("", profiler.RolePool)
	fmt.Fprintf(w, "\n%d connections opened and closed: the heap grew by %d bytes (bound: 1 MiB); created %d, closed %v, live %d\n",
		n, grown, e.Created, e.ClosedBy, e.Live)
	if grown > 1<<20 || e.Live != 0 {
		return fmt.Errorf("the heap grew by %d bytes, %d connections are live", grown, e.Live)
	}
	return nil
}

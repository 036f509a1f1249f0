package pool

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// chaos is a driver whose connections take their time, die now and then, and honour contexts.
type chaos struct{ made, ended, making atomic.Int64 }

type chaosConn struct {
	of   *chaos
	dead bool
}

// reached is a context's note that the driver was asked to run something.
type reached struct{}

func (c *chaos) Driver() driver.Driver { return nil }
func (c *chaos) Connect(ctx context.Context) (driver.Conn, error) {
	c.making.Add(1)
	defer c.making.Add(-1)
	if rand.IntN(50) == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	c.made.Add(1)
	return &chaosConn{of: c}, nil
}

func (c *chaosConn) Prepare(string) (driver.Stmt, error) { return nil, io.ErrNoProgress }
func (c *chaosConn) Close() error                        { c.of.ended.Add(1); return nil }
func (c *chaosConn) Begin() (driver.Tx, error)           { return c, nil }
func (c *chaosConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	if n, ok := ctx.Value(reached{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	return c, nil
}
func (c *chaosConn) Commit() error   { return nil }
func (c *chaosConn) Rollback() error { return nil }
func (c *chaosConn) IsValid() bool   { return !c.dead }
func (c *chaosConn) ResetSession(context.Context) error {
	if rand.IntN(40) == 0 { // killed while it was idle
		return driver.ErrBadConn
	}
	return nil
}

func (c *chaosConn) run(ctx context.Context) error {
	if rand.IntN(40) == 0 { // the caller may give up before it is tried again
		return driver.ErrBadConn
	}
	if n, ok := ctx.Value(reached{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	select {
	case <-ctx.Done():
		c.dead = true
		return ctx.Err()
	case <-time.After(time.Duration(rand.IntN(1000)) * time.Microsecond):
		return nil
	}
}

func (c *chaosConn) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, c.run(ctx)
}

func (c *chaosConn) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	return &fakeRows{left: 3}, c.run(ctx)
}

// counter is a Sink that counts.
type counter struct {
	creates, failed, closes, ops, first atomic.Int64
	responses                           atomic.Int64
	waited                              atomic.Int64 // ns, without creates of one's own, as database/sql counts
}

func (c *counter) Record(_ context.Context, e profiler.Event) {
	switch e.Kind {
	case profiler.KindCreate:
		c.creates.Add(1)
		if e.Conn.Create().Err != nil {
			c.failed.Add(1)
		}
	case profiler.KindClose:
		c.closes.Add(1)
	case profiler.KindFirstResponse:
		c.responses.Add(1)
	case profiler.KindWaitFailed:
		c.waited.Add(int64(e.Op.Wait))
	case profiler.KindOperation:
		c.ops.Add(1)
		if e.Op.N == 1 {
			c.first.Add(1)
		}
		switch e.Op.WaitFor {
		case profiler.WaitCreate: // perhaps after a queue that ended at a dead connection
			c.waited.Add(int64(e.Op.Queued))
		case profiler.WaitFree, profiler.WaitBackground:
			c.waited.Add(int64(e.Op.Wait))
		}
	}
}

// CONNPROF_STRESS=30s is the long form.
func TestStressWithCancelsKillsAndResizes(t *testing.T) {
	last := 700 * time.Millisecond
	if s := os.Getenv("CONNPROF_STRESS"); s != "" {
		var err error
		if last, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	var seen counter
	p := &profiler.Profiler{Sinks: []profiler.Sink{&seen}, Holders: true}
	p.CollectOperations()
	d := new(chaos)
	plain := OpenDB(p, &Connector{Connector: d, Profiler: p, Endpoint: profiler.Endpoint{System: "other_sql", Address: "chaos"}})
	plain.SetMaxOpenConns(8)
	db := Wrap(plain)

	var lost atomic.Int64 // ns waited by those whose connection could not be made: nothing carries it
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				one(db, &lost)
			}
		})
	}
	wg.Go(func() { // resizes, and reports in between
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				plain.SetMaxOpenConns(4 + rand.IntN(8))
				plain.SetMaxIdleConns(rand.IntN(8))
				r := p.Report()
				if e := r.Endpoint("", profiler.RolePool); e != nil && (e.Live < 0 || e.Live != e.Created-e.Closed) {
					t.Errorf("%d live of %d created, %d closed", e.Live, e.Created, e.Closed)
				}
			}
		}
	})
	time.Sleep(last)
	close(stop)
	wg.Wait()
	stats := plain.Stats()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// Rows of a cancelled context are closed, and connections for the pool made, on goroutines of database/sql's.
	for deadline := time.Now().Add(10 * time.Second); d.making.Load() > 0 || d.ended.Load() != d.made.Load() || len(p.Conns()) > 0; {
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	r := p.Report()
	e := r.Endpoint("", profiler.RolePool)
	first, reused := e.Queries()
	t.Logf("%d connections, %d operations (%d first), %d stale, closed %v, waited %v of %v", e.Created, first+reused, first, e.Stale, e.ClosedBy,
		time.Duration(seen.waited.Load()+lost.Load()), stats.WaitDuration)
	if e.Created != d.made.Load() || e.Closed != e.Created || e.Live != 0 || len(p.Conns()) != 0 || e.HeldIdle != 0 {
		t.Errorf("created %d of %d, closed %d, live %d, listed %d, held %d", e.Created, d.made.Load(), e.Closed, e.Live, len(p.Conns()), e.HeldIdle)
	}
	if e.Waiting != 0 || !e.WaitingKnown || e.WaitingMost > 64 {
		t.Errorf("%d wait when all is over (known: %t), %d at most", e.Waiting, e.WaitingKnown, e.WaitingMost)
	}
	var whole uint64
	for _, m := range e.Measures {
		if m.Measure == profiler.MeasureOperation.String() {
			whole += m.Count
		}
	}
	if whole != first+reused {
		t.Errorf("%d whole operations of %d", whole, first+reused)
	}
	if ops := seen.ops.Load(); int64(first+reused) != ops || seen.responses.Load() != ops || int64(first) != seen.first.Load() || first > uint64(e.Created) {
		t.Errorf("%d + %d operations, sinks saw %d, %d of them first, %d responses", first, reused, ops, seen.first.Load(), seen.responses.Load())
	}
	if seen.creates.Load() != e.Created+e.Failed || seen.failed.Load() != e.Failed || seen.closes.Load()+r.Dropped.Closes != e.Closed {
		t.Errorf("sinks saw %d creates, %d failed, %d closes; %d were lost",
			seen.creates.Load(), seen.failed.Load(), seen.closes.Load(), r.Dropped.Closes)
	}
	got, want := time.Duration(seen.waited.Load()+lost.Load()), stats.WaitDuration
	if diff := (got - want).Abs(); diff > want/20+20*time.Millisecond {
		t.Errorf("waits of %v, database/sql says %v", got, want)
	}
}

// one is a random use of the pool.
func one(db *DB, lost *atomic.Int64) {
	var ran atomic.Int64
	ctx := context.WithValue(context.Background(), reached{}, &ran)
	if rand.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20_000))*time.Microsecond)
		defer cancel()
	}
	start := time.Now()
	gaveUp := func(err error) {
		if err != nil && ran.Load() == 0 && ctx.Err() == nil && !errors.Is(err, driver.ErrBadConn) { // a bad connection's operation carries its wait
			lost.Add(int64(time.Since(start)))
		}
	}
	switch rand.IntN(4) {
	case 0:
		_, err := db.ExecContext(ctx, "x")
		gaveUp(err)
	case 1, 2:
		rows, err := db.QueryContext(ctx, "q")
		if gaveUp(err); err != nil {
			return
		}
		for rows.Next() && rand.IntN(3) > 0 {
		}
		rows.Close()
	case 3:
		tx, err := db.BeginTx(ctx, nil)
		if gaveUp(err); err != nil {
			return
		}
		tx.ExecContext(ctx, "x")
		if rand.IntN(2) == 0 {
			tx.Commit()
		} else {
			tx.Rollback()
		}
	}
}

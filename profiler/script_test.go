package profiler

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write the golden files in testdata")

// golden compares got with a file in testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew); got:\n%s", file, got)
	}
}

// bubble runs f where time passes only by pass, and exactly as told.
func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func pass(d time.Duration) { time.Sleep(d) }

// recorder is a Sink that keeps all it gets.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) Record(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) kinds() (ks []Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		ks = append(ks, e.Kind)
	}
	return ks
}

func (r *recorder) count(k Kind) (n int) {
	for _, have := range r.kinds() {
		if have == k {
			n++
		}
	}
	return n
}

// op runs one operation that takes d to its first response and rows until it ends.
func op(ctx context.Context, c *Conn, k OpKind, d, rows time.Duration, err error) {
	o := c.Begin(ctx, k, Now())
	pass(d)
	o.Responded(ctx, Now(), err)
	if rows > 0 {
		pass(rows)
	}
	o.End(ctx, Now(), err)
}

// dialed takes a connection through the phases of a MySQL create over TLS; scale stretches all of it.
func dialed(c *Conn, scale time.Duration) {
	for _, s := range []struct {
		p Phase
		d time.Duration
	}{{Other, 20}, {Resolve, 700}, {Connect, 250}, {Greet, 310}, {TLS, 2900}, {Verify, 15}, {Auth, 1200}, {Setup, 400}} {
		pass(s.d * time.Microsecond * scale / 10)
		c.Cut(s.p, Now())
	}
	c.Update(func(cr *Create) {
		cr.TCP = TCPInfo{Known: true, RTT: 200 * time.Microsecond * scale / 10}
		cr.TLS = TLSInfo{Seen: true, Done: true, Version: 0x0304}
		cr.Wire = Wire{Transport: TransportTCP, Turns: 3, AuthTurns: 2, AuthWait: 900 * time.Microsecond, SetupTurns: 1}
	})
	c.Attempt(Attempt{Network: "tcp", Address: "10.0.0.7:3306", Begin: 720 * time.Microsecond, Duration: 250 * time.Microsecond})
}

var orders = Endpoint{System: "mysql", Address: "db.example:3306", Namespace: "orders"}

// scripted is a small program's life with three connections, in a bubble: one reused, one churned, and creates that failed.
func scripted(p *Profiler) {
	ctx := context.Background()
	for i := range 3 {
		c := p.NewConn(orders, RolePool)
		dialed(c, time.Duration(10+i))
		pass(30 * time.Microsecond)
		c.Ready(ctx)
		c.CheckedOut(ctx, 0, Now())
		op(ctx, c, OpQuery, 450*time.Microsecond, 120*time.Microsecond, nil)
		c.CheckedIn(0)
		for n := range 40 {
			pass(2 * time.Millisecond)
			asked := Now()
			pass(3 * time.Microsecond)
			c.CheckedOut(ctx, asked, Now())
			var err error
			if n == 7 {
				err = errors.New("Error 1064 (42000): You have an error in your SQL syntax")
			}
			op(ctx, c, OpQuery, time.Duration(180+n)*time.Microsecond, 40*time.Microsecond, err)
			c.CheckedIn(0)
		}
		if i < 2 {
			c.Closed(CloseIdleLimit, nil)
		}
	}
	for _, failed := range []struct {
		p   Phase
		err error
	}{{Connect, fmt.Errorf("dial tcp 10.0.0.7:3306: %w", context.DeadlineExceeded)}, {Auth, errors.New("Error 1045 (28000): Access denied for user 'app'")}} {
		c := p.NewConn(orders, RolePool)
		pass(5 * time.Millisecond)
		c.Cut(failed.p, Now())
		c.Update(func(cr *Create) { cr.Failed = failed.p })
		c.Fail(ctx, failed.err)
	}
	m := p.NewConn(Endpoint{System: "mongodb", Address: "mongo.example:27017"}, RoleMonitor)
	m.SetKind("heartbeat")
	pass(400 * time.Microsecond)
	m.Cut(Connect, Now())
	pass(900 * time.Microsecond)
	m.Cut(Hello, Now())
	m.Ready(noContext)
	p.WatchPool("db.example:3306", func() PoolStats {
		return PoolStats{MaxOpen: 10, Open: 1, Idle: 1, WaitCount: 4, WaitDuration: 9 * time.Millisecond, IdleLimitClosed: 2}
	})
}

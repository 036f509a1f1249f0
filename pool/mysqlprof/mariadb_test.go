package mysqlprof

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

func config(s *mariadbtest.Server, secure bool) *mysql.Config {
	if secure {
		return s.Config(mariadbtest.Verified)
	}
	return s.Config(mariadbtest.Plain)
}

// dsn is a data source name with the given parameters.
func dsn(t *testing.T, s *mariadbtest.Server, secure, unix bool, params string) string {
	t.Helper()
	if secure {
		if err := mysql.RegisterTLSConfig("mysqlprof-test", s.ClientTLS(mariadbtest.Verified)); err != nil {
			t.Fatal(err)
		}
		params = "tls=mysqlprof-test&" + params
	}
	d := s.DSN(mariadbtest.User, mariadbtest.Password, strings.TrimSuffix(params, "&"))
	if unix {
		d = strings.Replace(d, "tcp("+s.Addr+")", "unix("+s.Socket+")", 1)
	}
	return d
}

func TestACreateShowsItsPhases(t *testing.T) {
	s := mariadbtest.Start(t)
	for _, tt := range []struct {
		name   string
		secure bool
		unix   bool
		params string
		want   string
		setup  int
	}{
		{"in the clear", false, false, "", "connect greet auth", 0},
		{"under TLS", true, false, "", "connect greet tls verify auth", 0},
		{"over a unix socket", false, true, "", "connect greet auth", 0},
		{"with a session variable", true, false, "wait_timeout=100", "connect greet tls verify auth setup", 1},
		{"with a session variable in the clear", false, false, "wait_timeout=100", "connect greet auth setup", 1},
		{"asking for max_allowed_packet", true, false, "maxAllowedPacket=0", "connect greet tls verify auth setup", 1},
		{"with all of them", true, false, "maxAllowedPacket=0&charset=utf8mb4&wait_timeout=100", "connect greet tls verify auth setup", 3},
		{"with charsets to try", true, false, "charset=utf8mb4,utf8", "connect greet tls verify auth+setup", 0},
		{"with charsets to try in the clear", false, false, "charset=utf8mb4,utf8", "connect greet auth setup", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := new(profiler.Profiler)
			db, err := Open(p, dsn(t, s, tt.secure, tt.unix, tt.params))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var tl profiler.Timeline
			var one int
			if err := db.QueryRowContext(profiler.WithSink(t.Context(), &tl), "SELECT 1").Scan(&one); err != nil || one != 1 {
				t.Fatal(one, err)
			}
			events := tl.Events()
			if len(events) != 2 || events[0].Kind != profiler.KindCreate || events[1].Op.N != 1 {
				t.Fatalf("events %+v, want the create and one first query", events)
			}
			cr := events[0].Conn.Create()
			if got := phaseNames(cr); got != tt.want {
				t.Errorf("phases %q, want %q", got, tt.want)
			}
			if cr.Duration != phaseSum(cr) {
				t.Errorf("phases sum to %v, create took %v", phaseSum(cr), cr.Duration)
			}
			if int(cr.Wire.SetupTurns) != tt.setup || !cr.Caller || !strings.Contains(cr.Wire.ServerVersion, "MariaDB") {
				t.Errorf("wire %+v, by caller %v; want %d set-up turns", cr.Wire, cr.Caller, tt.setup)
			}
			if cr.TLS.Seen != tt.secure {
				t.Errorf("TLS seen: %v, want %v", cr.TLS.Seen, tt.secure)
			}
			if first, reused := p.Report().Endpoint("", profiler.RolePool).Queries(); first != 1 || reused != 0 {
				t.Errorf("%d first, %d reused queries; the driver's own statements must not count", first, reused)
			}
		})
	}
}

func phaseNames(cr *profiler.Create) string {
	var s []string
	for p := range profiler.Phases {
		if cr.Phases[p].Present && p != profiler.Other {
			s = append(s, p.String())
		}
	}
	return strings.Join(s, " ")
}

// C01: the default of two idle connections turns a pool into a connection factory.
func TestChurnOfTheDefaultIdleLimitIsNamed(t *testing.T) {
	s := mariadbtest.Start(t)
	run := func(idle int) profiler.Report {
		p := new(profiler.Profiler)
		db, err := OpenConfig(p, config(s, true))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(10)
		if idle > 0 {
			db.SetMaxIdleConns(idle)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 50 {
					if _, err := db.Exec("DO 1"); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		return p.Report()
	}
	r := run(0)
	e := r.Endpoint(s.Addr, profiler.RolePool)
	if first, reused := e.Queries(); first+reused != 500 || first < uint64(e.Created) {
		t.Errorf("%d first, %d reused; want 500 in all, %d first", first, reused, e.Created)
	}
	if e.Created < 50 || len(r.Pools) != 1 || r.Pools[0].IdleLimitClosed < 40 || r.Pools[0].WaitCount != 0 {
		t.Errorf("created %d, pool %+v; want churn without waits", e.Created, r.Pools)
	}
	churn := func(r profiler.Report) *profiler.Finding {
		for _, f := range r.Findings {
			if f.ID == "pool_churn" {
				return &f
			}
		}
		return nil
	}
	if f := churn(r); f == nil || !strings.Contains(f.Advice, "MaxIdleConns") || !strings.Contains(f.Evidence, "dials per query") {
		t.Errorf("findings %+v", r.Findings)
	}
	r = run(10)
	if e := r.Endpoint(s.Addr, profiler.RolePool); e.Created > 10 || churn(r) != nil {
		t.Errorf("with enough idle connections: created %d, findings %+v", e.Created, r.Findings)
	}
}

// C07: the driver's liveness check must still find a connection that the server has closed.
func TestTheLivenessCheckStillWorks(t *testing.T) {
	s := mariadbtest.Start(t)
	hidden := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		return struct{ net.Conn }{nc}, err
	}
	for _, tt := range []struct {
		name    string
		p       *profiler.Profiler
		dial    func(context.Context, string, string) (net.Conn, error)
		secure  bool
		survive bool
	}{
		{"bare", nil, nil, false, true},
		{"bare, hidden by the user's dialer", nil, hidden, false, false},
		{"profiled", new(profiler.Profiler), nil, false, true},
		{"profiled under TLS", new(profiler.Profiler), nil, true, true},
		{"profiled, hidden by the user's dialer", new(profiler.Profiler), hidden, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config(s, tt.secure)
			cfg.DialFunc = tt.dial
			cfg.Logger = &mysql.NopLogger{}
			db, err := OpenConfig(tt.p, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			var id int
			if err := db.QueryRow("SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			killer, err := OpenConfig(nil, config(s, false))
			if err != nil {
				t.Fatal(err)
			}
			defer killer.Close()
			if _, err := killer.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
				t.Fatal(err)
			}
			waitGone(t, killer, id)
			_, err = db.Exec("DO 1")
			if tt.survive && err != nil || !tt.survive && !errors.Is(err, mysql.ErrInvalidConn) {
				t.Errorf("after the kill: %v; want success: %v", err, tt.survive)
			}
			if tt.p != nil {
				found := false
				for _, f := range tt.p.Report().Findings {
					found = found || f.ID == "no_liveness_check"
				}
				if found == tt.survive {
					t.Errorf("it is said that there is no check: %v", found)
				}
			}
			if tt.p == nil || !tt.survive {
				return
			}
			e := tt.p.Report().Endpoint(s.Addr, profiler.RolePool)
			if e.Created != 2 || e.ClosedBy["stale"] != 1 {
				t.Errorf("created %d, closed %v; want a second connection after a stale one", e.Created, e.ClosedBy)
			}
			if first, reused := e.Queries(); first != 2 || reused != 0 {
				t.Errorf("%d first, %d reused; want the repeated query once", first, reused)
			}
		})
	}
}

// waitGone waits until the server no longer lists a killed connection, and its socket has had the time to say so.
func waitGone(t *testing.T, db *sql.DB, id int) {
	t.Helper()
	for range 200 {
		var n int
		if err := db.QueryRow(fmt.Sprintf("SELECT COUNT(*) FROM information_schema.processlist WHERE id = %d", id)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			time.Sleep(20 * time.Millisecond)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("connection %d is still there", id)
}

func TestAQueryWithArgumentsIsOneOperation(t *testing.T) {
	s := mariadbtest.Start(t)
	p := new(profiler.Profiler)
	db, err := OpenConfig(p, config(s, false))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range 3 {
		var tl profiler.Timeline
		var got int
		if err := db.QueryRowContext(profiler.WithSink(t.Context(), &tl), "SELECT ?", i).Scan(&got); err != nil || got != i {
			t.Fatal(got, err)
		}
		ops := 0
		for _, ev := range tl.Events() {
			if ev.Kind == profiler.KindOperation {
				ops++
				if ev.Op.N != uint64(i+1) || ev.Op.Kind != profiler.OpQuery || ev.Op.Err != nil {
					t.Errorf("operation %+v", ev.Op)
				}
			}
		}
		if ops != 1 {
			t.Errorf("query %d was %d operations", i, ops)
		}
	}
	if first, reused := p.Report().Endpoint("", profiler.RolePool).Queries(); first != 1 || reused != 2 {
		t.Errorf("%d first, %d reused", first, reused)
	}
}

func TestTheWaitForAConnectionIsKnownThroughWrap(t *testing.T) {
	s := mariadbtest.Start(t)
	p := new(profiler.Profiler)
	db, err := OpenConfig(p, config(s, false))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	wrapped := pool.Wrap(db)
	if _, err := wrapped.Exec("DO 1"); err != nil {
		t.Fatal(err)
	}
	held, err := wrapped.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const hold = 50 * time.Millisecond
	var tl profiler.Timeline
	done := make(chan error)
	go func() {
		_, err := wrapped.ExecContext(profiler.WithSink(t.Context(), &tl), "DO 1")
		done <- err
	}()
	for db.Stats().WaitCount == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(hold)
	held.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ev := tl.Events()
	if len(ev) != 1 || !ev[0].Op.WaitKnown || ev[0].Op.Wait < hold || ev[0].Op.Queued != ev[0].Op.Wait {
		t.Fatalf("events %+v, want a wait of at least %v, all of it in the queue", ev, hold)
	}
	if d := ev[0].Op.FirstResponse.Sub(ev[0].Op.Start); d > hold {
		t.Errorf("the query took %v: the wait was counted in", d)
	}
	st := db.Stats()
	if diff := st.WaitDuration - ev[0].Op.Wait; diff > 5*time.Millisecond || diff < -5*time.Millisecond {
		t.Errorf("database/sql says %v, the operation %v", st.WaitDuration, ev[0].Op.Wait)
	}
}

func TestTheUsersDialerIsChained(t *testing.T) {
	s := mariadbtest.Start(t)
	dials := 0
	cfg := config(s, true)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, addr)
	}
	p := new(profiler.Profiler)
	db, err := OpenConfig(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	e := p.Report().Endpoint(s.Addr, profiler.RolePool)
	if dials != 1 || e.Created != 1 || e.TLS.Handshakes != 1 {
		t.Errorf("%d dials, report %+v", dials, e)
	}
	if first, reused := e.Queries(); first+reused != 0 {
		t.Errorf("a ping counted as an operation")
	}
}

package oteltrace_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/pool/mysqlprof"
)

// What a trace of a service must show, on a real server over TLS with pool.Wrap: the pictures that no other instrumentation draws.

func TestMain(m *testing.M) {
	code := m.Run()
	if err := mariadbtest.Stop(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = max(code, 1)
	}
	os.Exit(code)
}

// A service answers requests with queries.
type service struct {
	*rig
	db *pool.DB
}

func newService(t *testing.T, change func(*mysql.Config)) *service {
	t.Helper()
	s := &service{rig: newRig()}
	cfg := mariadbtest.Start(t).Config(mariadbtest.Verified)
	if change != nil {
		change(cfg)
	}
	db, err := mysqlprof.OpenConfig(&s.p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s.db = pool.Wrap(db)
	return s
}

// request runs f under a span.
func (s *service) request(t *testing.T, name string, f func(ctx context.Context) error) {
	ctx, span := s.tracer.Start(context.Background(), name)
	defer span.End()
	if err := f(ctx); err != nil {
		t.Error(err)
	}
}

func (s *service) one(ctx context.Context) error {
	var n int
	return s.db.QueryRowContext(ctx, "SELECT 1").Scan(&n)
}

// under are the spans directly under the span of that name, by name.
func under(all map[string][]sdktrace.ReadOnlySpan, name string) map[string]sdktrace.ReadOnlySpan {
	children := map[string]sdktrace.ReadOnlySpan{}
	for _, list := range all {
		for _, s := range list {
			if s.Parent().SpanID() == all[name][0].SpanContext().SpanID() {
				children[s.Name()] = s
			}
		}
	}
	return children
}

func took(s sdktrace.ReadOnlySpan) time.Duration {
	return time.Duration(s.EndTime().UnixNano() - s.StartTime().UnixNano())
}

func (s *service) setupName(t *testing.T) string {
	return "connection_setup " + mariadbtest.Start(t).Addr
}

// waiting returns once somebody waits for a connection.
func (s *service) waiting(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); s.db.Stats().WaitCount == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

// C02: three numbers for one call, the wait for a connection that another one has, none for a connect, and the query.
func TestAWaitForThePoolIsSeenAsOne(t *testing.T) {
	s := newService(t, nil)
	s.db.SetMaxOpenConns(1)
	conn, err := s.db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.PingContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.request(t, "GET /", s.one) })
	s.waiting(t)
	const hold = 50 * time.Millisecond
	time.Sleep(hold)
	conn.Close()
	wg.Wait()
	spans := under(s.ended(t), "GET /")
	wait, query := spans["wait_for_connection"], spans["SELECT"]
	if wait == nil || query == nil || len(spans) != 2 {
		t.Fatalf("under the request: %v", spans)
	}
	a := attributesOf(query)
	if took(wait) < hold || query.StartTime().UnixNano() < wait.EndTime().UnixNano() || a["connprof.waited_for"] != "free" ||
		a["connprof.wait"].(float64) < hold.Seconds() || a["connprof.queued"] != a["connprof.wait"] || len(query.Links()) != 1 {
		t.Errorf("wait %v, query %v: %v", took(wait), took(query), a)
	}
}

// C02, the other half: what a connection of one's own takes, far away, is no wait for the pool.
func TestAConnectOfOnesOwnIsNoWaitForThePool(t *testing.T) {
	const delay = 30 * time.Millisecond
	addr := relay(t, delay, mariadbtest.Start(t).Addr)
	s := newService(t, func(cfg *mysql.Config) { cfg.Addr = addr })
	s.request(t, "GET /", s.one)
	spans := under(s.ended(t), "GET /")
	setup, query := spans["connection_setup "+addr], spans["SELECT"]
	if setup == nil || query == nil || spans["wait_for_connection"] != nil {
		t.Fatalf("under the request: %v", spans)
	}
	a := attributesOf(query)
	if took(setup) < 3*delay || a["connprof.waited_for"] != "create" || a["connprof.wait"].(float64) < took(setup).Seconds() ||
		a["connprof.queued"].(float64) > a["connprof.wait"].(float64)-took(setup).Seconds()+1e-6 || a["connprof.connection.reused"] != false {
		t.Errorf("setup %v, query %v", took(setup), a)
	}
	for _, phase := range []string{"greet", "tls", "auth_setup", "auth"} {
		if d, ok := a[attribute.Key("connprof.phase."+phase)]; ok && phase != "greet" && d.(float64) < delay.Seconds() {
			t.Errorf("%s took %v over a relay that adds %v", phase, d, delay)
		}
	}
}

// C03: the pool replaces a connection that broke, in the background, for whoever waits. The create is nobody's before it has a user.
func TestABackgroundCreateIsTiedToItsFirstUser(t *testing.T) {
	for _, wrapped := range []bool{true, false} {
		name := "a plain DB"
		if wrapped {
			name = "pool.Wrap"
		}
		t.Run(name, func(t *testing.T) {
			s := newService(t, nil)
			s.db.SetMaxOpenConns(1)
			var conn *sql.Conn
			var hold sync.WaitGroup
			broken := make(chan struct{})
			ready := make(chan struct{})
			hold.Go(func() {
				s.request(t, "GET /a", func(ctx context.Context) (err error) {
					defer close(ready)
					if conn, err = s.db.Conn(ctx); err != nil {
						return err
					}
					return conn.PingContext(ctx)
				})
				<-broken
				_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			})
			<-ready
			hold.Go(func() {
				s.request(t, "GET /b", func(ctx context.Context) error {
					if wrapped {
						return s.one(ctx)
					}
					var n int
					return s.db.DB.QueryRowContext(ctx, "SELECT 1").Scan(&n)
				})
			})
			s.waiting(t)
			time.Sleep(5 * time.Millisecond) // the wait is longer than its threshold
			close(broken)
			hold.Wait()
			all := s.ended(t)
			setups := all[s.setupName(t)]
			if len(setups) != 2 {
				t.Fatalf("%d connections", len(setups))
			}
			setup := setups[0]
			if attributesOf(setup)["connprof.create.background"] != true {
				setup = setups[1]
			}
			b := under(all, "GET /b")
			query := b["SELECT"]
			if query == nil || len(query.Links()) != 1 || query.Links()[0].SpanContext.SpanID() != setup.SpanContext().SpanID() {
				t.Fatalf("the first operation does not lead to its connection: %v", b)
			}
			if attributesOf(query)["connprof.query.index"] != int64(1) || attributesOf(setup)["connprof.create.background"] != true {
				t.Errorf("query %v, connection %v", attributesOf(query), attributesOf(setup))
			}
			if !wrapped {
				if setup.Parent().IsValid() || b["wait_for_connection"] != nil || attributesOf(query)["connprof.wait"] != nil {
					t.Error("nothing tells when the caller asked, and the create has a parent all the same")
				}
				return
			}
			wait := b["wait_for_connection"]
			if wait == nil || b[setup.Name()] == nil || attributesOf(query)["connprof.waited_for"] != "background_create" {
				t.Fatalf("under the request that waited: %v", b)
			}
			if wait.EndTime().UnixNano() != setup.StartTime().UnixNano() || query.StartTime().UnixNano() < setup.EndTime().UnixNano() {
				t.Error("wait, create and query overlap")
			}
			root := all["GET /b"][0]
			if sum := took(wait) + took(setup) + took(query); sum > took(root) {
				t.Errorf("wait, create and query sum to %v of %v", sum, took(root))
			}
		})
	}
}

func TestAFirstQueryShowsWhatItPaidAndAReusedOneThatItDidNot(t *testing.T) {
	s := newService(t, nil)
	s.request(t, "GET /1", s.one)
	s.request(t, "GET /2", s.one)
	all := s.ended(t)
	first, second := attributesOf(under(all, "GET /1")["SELECT"]), attributesOf(under(all, "GET /2")["SELECT"])
	setup := under(all, "GET /1")[s.setupName(t)]
	if first["connprof.connection.reused"] != false || second["connprof.connection.reused"] != true ||
		first["connprof.connection.create"] != took(setup).Seconds() || second["connprof.connection.create"] != nil {
		t.Errorf("first %v\nsecond %v", first, second)
	}
	if first["connprof.connection.id"] != second["connprof.connection.id"] || second["connprof.connection.idle"].(float64) <= 0 {
		t.Errorf("second %v", second)
	}
	if len(under(all, "GET /2")) != 1 {
		t.Errorf("under the second request: %v", under(all, "GET /2"))
	}
}

func TestAResumedHandshakeIsTold(t *testing.T) {
	s := newService(t, func(cfg *mysql.Config) { cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(4) })
	s.db.SetMaxIdleConns(-1)
	s.request(t, "GET /1", s.one)
	s.request(t, "GET /2", s.one)
	var resumed []any
	for _, span := range s.ended(t)["tls"] {
		resumed = append(resumed, attributesOf(span)["tls.resumed"])
	}
	if len(resumed) != 2 || resumed[0] != false || resumed[1] != true {
		t.Errorf("resumed: %v", resumed)
	}
}

func TestTheShareOfTLSFallsWithEachQueryOfAConnection(t *testing.T) {
	s := newService(t, nil)
	for range 10 {
		s.request(t, "GET /", s.one)
	}
	all := s.ended(t)
	tls := took(all["tls"][0]).Seconds()
	for i, span := range all["SELECT"] {
		a := attributesOf(span)
		if a["connprof.connection.tls.duration"] != tls || a["connprof.query.index"] != int64(i+1) || a["connprof.tls.amortized"] != tls/float64(i+1) {
			t.Errorf("query %d: %v of %v", i+1, a["connprof.tls.amortized"], tls)
		}
	}
	if len(all["SELECT"]) != 10 || len(all["tls"]) != 1 || tls <= 0 {
		t.Errorf("%d queries, %d handshakes", len(all["SELECT"]), len(all["tls"]))
	}
}

// relay passes on what it gets after a delay.
func relay(t *testing.T, delay time.Duration, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pass := func(from, to net.Conn) {
		defer to.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			time.Sleep(delay)
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go pass(near, far)
			go pass(far, near)
		}
	}()
	return l.Addr().String()
}

package pool_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// creating keeps the creates that are reported.
type creating struct {
	mu  sync.Mutex
	all []*profiler.Conn
}

func (c *creating) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, e.Conn)
	}
}

// of are the creates of one role.
func (c *creating) of(role profiler.Role) (crs []*profiler.Create) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		if conn.Role() == role {
			crs = append(crs, conn.Create())
		}
	}
	return crs
}

func openPQ(t *testing.T, p *profiler.Profiler, addr, dsn string) *sql.DB {
	t.Helper()
	c, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	e := profiler.Endpoint{System: "postgresql", Address: addr}
	c.Dialer(&handshake.Dialer{Profiler: p, Endpoint: e, Role: profiler.RoleCancel})
	db := pool.OpenDB(p, &pool.Connector{Connector: c, Profiler: p, Endpoint: e})
	t.Cleanup(func() { db.Close() })
	return db
}

func phases(cr *profiler.Create) string {
	var s []string
	var sum time.Duration
	for p := range profiler.Phases {
		sum += cr.Phases[p].Duration
		if cr.Phases[p].Present && p != profiler.Other {
			s = append(s, p.String())
		}
	}
	if sum != cr.Duration {
		return "phases that don't sum to the create"
	}
	return strings.Join(s, " ")
}

// listening runs a server that does f to every connection.
func listening(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var conns sync.Map
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(nc, nil)
			all.Go(func() {
				defer nc.Close()
				f(nc)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(nc, _ any) bool { nc.(net.Conn).Close(); return true }) // lib/pq leaves one open
		all.Wait()
	})
	return l.Addr().String()
}

// withoutTLS leads to the server at addr, and answers a request for TLS with N. It notes when the client closes the connection it asked on.
func withoutTLS(addr string, closed chan<- struct{}) func(net.Conn) {
	return func(nc net.Conn) {
		head := make([]byte, 8)
		if _, err := io.ReadFull(nc, head); err != nil {
			return
		}
		if head[3] == 8 { // SSLRequest
			nc.Write([]byte("N"))
			if _, err := io.Copy(io.Discard, nc); err == nil {
				close(closed)
			}
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		server.Write(head)
		go func() { io.Copy(nc, server); nc.Close() }()
		io.Copy(server, nc)
		server.Close()
	}
}

func TestPQsConnectsHaveTheirPhases(t *testing.T) {
	s := postgrestest.Start(t)
	nobody := make(chan struct{})
	plain := listening(t, withoutTLS(s.Addr, nobody))
	_, port, _ := net.SplitHostPort(s.Addr)
	account := " user=" + postgrestest.User + " password=" + postgrestest.Password + " dbname=" + postgrestest.Database
	user := func(addr, params string) string {
		return "postgres://" + postgrestest.User + ":" + postgrestest.Password + "@" + addr + "/" + postgrestest.Database + "?" + params
	}
	for _, tt := range []struct {
		name, dsn, want string
		secure          bool
		attempts        int
	}{
		{"verify-full", user("localhost:"+port, "sslmode=verify-full&sslrootcert="+s.CAFile), "resolve connect greet tls verify auth", true, 0},
		{"disable", user(s.Addr, "sslmode=disable"), "connect auth", false, 1},
		{"over the unix socket", "host=" + s.SocketDir + " port=" + port + account + " sslmode=disable", "connect auth", false, 1},
		{"prefer, without TLS", user(plain, "sslmode=prefer"), "attempts connect auth", false, 2},
		{"several hosts", "host=127.0.0.1,127.0.0.1 port=1," + port + account + " sslmode=require", "attempts connect greet tls verify auth", true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen creating
			p := &profiler.Profiler{Sinks: []profiler.Sink{&seen}}
			db := openPQ(t, p, s.Addr, tt.dsn)
			for range 3 {
				var n int
				if err := db.QueryRowContext(t.Context(), "SELECT $1::int", 7).Scan(&n); err != nil || n != 7 {
					t.Fatal(n, err)
				}
			}
			crs := seen.of(profiler.RolePool)
			if len(crs) != 1 || phases(crs[0]) != tt.want || !crs[0].Caller {
				t.Fatalf("creates %+v, want one with %q", crs, tt.want)
			}
			cr := crs[0]
			if cr.TLS.Done != tt.secure || cr.TLS.HelloRetry != tt.secure || cr.Wire.AuthTurns != 3 || tt.attempts > 0 && len(cr.Attempts) != tt.attempts {
				t.Errorf("TLS %+v, wire %+v, attempts %+v", cr.TLS, cr.Wire, cr.Attempts)
			}
			if tt.attempts == 2 && (cr.Attempts[0].Err == nil || cr.Attempts[0].Reached == profiler.NoPhase) {
				t.Errorf("the lost attempt %+v", cr.Attempts[0])
			}
			e := p.Report().Endpoint("", profiler.RolePool)
			if first, reused := e.Queries(); first != 1 || reused != 2 || e.Live != 1 || e.Created != 1 {
				t.Errorf("report %+v, %d first, %d reused", e, first, reused)
			}
			db.Close()
			if r := p.Report(); len(r.Endpoints) != 1 || r.Endpoints[0].Live != 0 || r.Endpoints[0].Closed != 1 {
				t.Errorf("report %v after the end", r)
			}
		})
	}
	select { // what lib/pq leaves open is nobody's connection, in reports as in the program
	case <-nobody:
		t.Log("lib/pq has closed the socket on which it asked for TLS")
	default:
	}
}

// C10, with lib/pq.
func TestPQsCancelRequestIsNoConnectionOfThePool(t *testing.T) {
	s := postgrestest.Start(t)
	for _, sslmode := range []string{"disable", "require"} {
		t.Run(sslmode, func(t *testing.T) {
			var seen creating
			p := &profiler.Profiler{Sinks: []profiler.Sink{&seen}}
			db := openPQ(t, p, s.Addr, s.DSN(postgrestest.User, postgrestest.Password, "sslmode="+sslmode))
			if _, err := db.Exec("SELECT 1"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := db.ExecContext(ctx, "SELECT pg_sleep(60)"); err == nil {
				t.Fatal("it slept")
			}
			if _, err := db.Exec("SELECT 1"); err != nil {
				t.Fatal(err)
			}
			for begin := time.Now(); ; time.Sleep(2 * time.Millisecond) { // lib/pq cancels on a goroutine of its own
				if c := p.Report().Endpoint("", profiler.RoleCancel); c != nil && c.Created == 1 && c.Live == 0 {
					break
				} else if time.Since(begin) > 20*time.Second {
					t.Fatalf("report %v, want a connection for the cancel request, closed again", p.Report())
				}
			}
			e := p.Report().Endpoint("", profiler.RolePool)
			if e.Created != 2 || e.Failed != 0 || e.Live != 1 || e.Measure(profiler.MeasureReusedQuery, profiler.Timeout) == nil {
				t.Errorf("report %+v, want the connection replaced, and a query that timed out", e)
			}
			if crs := seen.of(profiler.RoleCancel); len(crs) != 1 || crs[0].TLS.Done != (sslmode == "require") || crs[0].Phases[profiler.Auth].Present {
				t.Errorf("cancel requests %+v, want one without a login", crs)
			}
		})
	}
}

func TestPQsFailuresAreChargedToTheirPhase(t *testing.T) {
	s := postgrestest.Start(t)
	silent := listening(t, func(nc net.Conn) { io.Copy(io.Discard, nc) })
	dsn := func(addr, password, params string) string {
		return "postgres://" + postgrestest.User + ":" + password + "@" + addr + "/" + postgrestest.Database + "?" + params
	}
	for _, tt := range []struct {
		name, dsn string
		want      profiler.Phase
		class     profiler.ErrorClass
	}{
		{"a wrong password", dsn(s.Addr, "wrong", "sslmode=require"), profiler.Auth, profiler.ClassRejected},
		{"an unknown authority", dsn(s.Addr, postgrestest.Password, "sslmode=verify-full"), profiler.TLS, profiler.ClassUnknownAuthority},
		{"nobody listens", dsn("127.0.0.1:1", postgrestest.Password, "sslmode=require"), profiler.Connect, profiler.ClassRefused},
		// The context ends nothing once lib/pq has dialed: connect_timeout does.
		{"silence, with connect_timeout", dsn(silent, postgrestest.Password, "sslmode=require&connect_timeout=1"), profiler.Greet, profiler.ClassTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen creating
			p := &profiler.Profiler{Sinks: []profiler.Sink{&seen}}
			bare, err := sql.Open("postgres", tt.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer bare.Close()
			want := bare.PingContext(t.Context())
			got := openPQ(t, p, s.Addr, tt.dsn).PingContext(t.Context())
			if want == nil || got == nil || anyPort(want) != anyPort(got) {
				t.Errorf("lib/pq says %v, profiled %v", want, got)
			}
			crs := seen.of(profiler.RolePool)
			if len(crs) != 1 || crs[0].Failed != tt.want || crs[0].Class != tt.class || !errors.Is(got, crs[0].Err) {
				t.Fatalf("creates %+v, want one that failed in %v", crs, tt.want)
			}
		})
	}
}

// anyPort is an error's text without the client's own port.
func anyPort(err error) string {
	before, after, ok := strings.Cut(err.Error(), "->")
	if !ok {
		return err.Error()
	}
	return before[:strings.LastIndexByte(before, ':')] + "->" + after
}

// What lib/pq sends nobody declares: its round trips and bytes are those that the Dialer's connection counts. With arguments it prepares, and
// executes then.
func TestPQsRoundTripsAreCountedOnTheWire(t *testing.T) {
	s := postgrestest.Start(t)
	for _, mode := range []string{"disable", "require"} {
		p := new(profiler.Profiler)
		db := openPQ(t, p, s.Addr, s.DSN(postgrestest.User, postgrestest.Password, "sslmode="+mode))
		var n int
		for i, tt := range []struct {
			args  []any
			turns int
		}{{nil, 1}, {[]any{7}, 2}, {nil, 1}} {
			query := "SELECT 7"
			if tt.args != nil {
				query = "SELECT $1::int"
			}
			var tl profiler.Timeline
			if err := db.QueryRowContext(profiler.WithSink(t.Context(), &tl), query, tt.args...).Scan(&n); err != nil || n != 7 {
				t.Fatal(n, err)
			}
			events := tl.Events()
			if op := events[len(events)-1].Op; op.Turns != tt.turns || !op.BytesKnown || op.Sent < 10 || op.Received < 10 {
				t.Errorf("sslmode=%s, number %d: %d turns, %d bytes sent, %d received, known: %v; want %d turns", mode, i+1, op.Turns, op.Sent,
					op.Received, op.BytesKnown, tt.turns)
			}
		}
	}
}

package pgxprof

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

func TestAPoolsQueriesKnowTheirConnectionAndTheirWait(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Verified))
	cfg.MaxConns = 1
	db := open(t, Instrument(p, cfg))
	query := func(sql string) profiler.Operation {
		var tl profiler.Timeline
		rows, _ := db.Query(profiler.WithSink(t.Context(), &tl), sql)
		if _, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil {
			t.Fatal(err)
		}
		for _, ev := range tl.Events() {
			if ev.Kind == profiler.KindOperation {
				return ev.Op
			}
		}
		t.Fatalf("no operation among %+v", tl.Events())
		return profiler.Operation{}
	}
	first := query("SELECT 1")
	if first.N != 1 || first.Kind != profiler.OpQuery || first.Text != "SELECT 1" || !first.WaitKnown || first.Queued >= first.Wait {
		t.Errorf("first %+v, want a wait of which the create is a part", first)
	}
	held, err := db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const hold = 30 * time.Millisecond
	release := time.AfterFunc(hold, held.Release)
	defer release.Stop()
	if op := query("SELECT 2"); op.N != 2 || op.Wait < hold/2 || op.Queued != op.Wait {
		t.Errorf("second %+v, want a wait in the queue", op)
	}
	if op := query("SELECT 3"); op.N != 3 || op.WaitFor != profiler.WaitFree || op.Idle <= 0 {
		t.Errorf("third %+v, want no wait, after some idling", op)
	}
	e := p.Report().Endpoint(s.Addr, profiler.RolePool)
	if firsts, reused := e.Queries(); firsts != 1 || reused != 2 || e.Created != 1 || e.ByCaller != 1 {
		t.Errorf("%d first, %d reused, report %+v", firsts, reused, e)
	}
	uses, idles := e.Distribution(profiler.MeasureUse, profiler.OK), e.Distribution(profiler.MeasureIdle, profiler.OK)
	if uses == nil || idles == nil || uses.Count != 4 || idles.Count != 3 {
		t.Errorf("uses %+v, idle %+v; want 4 and 3", uses, idles)
	}
}

func TestConnectionsThatThePoolMakesByItselfHaveNoCaller(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
	cfg.MinConns = 1
	open(t, Instrument(p, cfg))
	for range 500 {
		if e := p.Report().Endpoint(s.Addr, profiler.RolePool); e != nil && e.Created == 1 {
			if e.ByCaller != 0 {
				t.Errorf("created for a caller: %+v", e)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the pool made no connection")
}

// C10: a query that is given up costs its connection, and another one to tell the server.
func TestACancelRequestIsNoConnectionOfThePool(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tt := range []struct {
		name string
		tls  postgrestest.TLS
		want string
	}{
		{"under TLS", postgrestest.Verified, "connect greet tls verify"},
		{"in the clear", postgrestest.Plain, "connect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rec recorder
			p := &profiler.Profiler{Sinks: []profiler.Sink{&rec}}
			conn, _ := connect(t, p, s.Config(tt.tls))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := conn.Exec(ctx, "SELECT pg_sleep(60)"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			<-conn.PgConn().CleanupDone()
			r := p.Report()
			e, c := r.Endpoint(s.Addr, profiler.RolePool), r.Endpoint(s.Addr, profiler.RoleCancel)
			if c == nil || c.Created != 1 || c.Failed != 0 || c.Live != 0 {
				t.Fatalf("report %v, want one connection for the cancel request", r)
			}
			if e.Created != 1 || e.Failed != 0 || e.Live != 0 || e.ClosedBy["canceled"] != 1 {
				t.Errorf("report %+v, want one connection closed for a cancelled operation", e)
			}
			crs := rec.of(profiler.RoleCancel)
			if len(crs) != 1 || phaseNames(crs[0]) != tt.want || !crs[0].TotalUnknown {
				t.Fatalf("creates %+v, want phases %q", crs, tt.want)
			}
			checkSum(t, crs[0])
		})
	}
}

// spy has the interfaces of embedded tracers and notes in which order it is called with what context.
type spy struct{ calls []string }

type spyKey struct{}

func (s *spy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.calls = append(s.calls, "query")
	return context.WithValue(ctx, spyKey{}, "query")
}

func (s *spy) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	s.calls = append(s.calls, ctx.Value(spyKey{}).(string)+" end")
}

// fullSpy has two of the optional ones as well.
type fullSpy struct{ spy }

func (s *fullSpy) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	s.calls = append(s.calls, "connect")
	return context.WithValue(ctx, spyKey{}, "connect")
}

func (s *fullSpy) TraceConnectEnd(ctx context.Context, _ pgx.TraceConnectEndData) {
	s.calls = append(s.calls, ctx.Value(spyKey{}).(string)+" end")
}

func (s *fullSpy) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) {
	s.calls = append(s.calls, "release")
}

func TestTheProgramsTracerAndHooksAreChained(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tt := range []struct {
		name   string
		tracer func() (pgx.QueryTracer, *spy)
		want   []string
	}{
		{"a tracer of queries", func() (pgx.QueryTracer, *spy) { s := new(spy); return s, s }, []string{"query", "query end"}},
		{"a tracer of more", func() (pgx.QueryTracer, *spy) { s := new(fullSpy); return s, &s.spy },
			[]string{"connect", "connect end", "query", "query end", "release"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := poolConfig(t, s, s.Config(postgrestest.Plain))
			tracer, spied := tt.tracer()
			cfg.ConnConfig.Tracer = tracer
			var dials, validated int
			cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials++
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			cfg.ConnConfig.ValidateConnect = func(context.Context, *pgconn.PgConn) error { validated++; return nil }
			p := new(profiler.Profiler)
			db, err := pgxpool.NewWithConfig(t.Context(), Instrument(p, Instrument(p, cfg)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			db.Close()
			if !slices.Equal(spied.calls, tt.want) || dials != 1 || validated != 1 {
				t.Errorf("calls %q, %d dials, %d validated; want %q", spied.calls, dials, validated, tt.want)
			}
			e := p.Report().Endpoint(s.Addr, profiler.RolePool)
			if first, reused := e.Queries(); e.Created != 1 || e.Closed != 1 || first != 1 || reused != 0 {
				t.Errorf("report %+v, %d first, %d reused", e, first, reused)
			}
		})
	}
}

func TestInstrumentTwiceIsOnce(t *testing.T) {
	s := postgrestest.Start(t)
	own := new(spy)
	base := s.Config(postgrestest.Plain)
	base.Tracer = own
	p := new(profiler.Profiler)
	once := InstrumentConn(p, base)
	if base.Tracer != own || once == base {
		t.Error("the configuration itself was changed")
	}
	twice := InstrumentConn(p, once)
	if h := twice.Tracer.(*tracer).hooks; h.tracer != own || !same(h.dial, base.DialFunc) || !same(h.lookup, base.LookupFunc) ||
		h.validate != nil {
		t.Errorf("hooks %+v are over others of ours", h)
	}
	// A tracer put over ours takes its place; the other hooks stay as they are, once.
	over := once.Copy()
	over.Tracer = new(spy)
	_, cr := connect(t, p, over)
	if len(cr.Attempts) != 1 || phaseNames(cr) != "connect auth" {
		t.Errorf("phases %q, attempts %+v", phaseNames(cr), cr.Attempts)
	}
	var other profiler.Profiler
	connect(t, &other, once)
	if n := len(p.Report().Endpoints); n != 1 || other.Report().Endpoints[0].Created != 1 {
		t.Errorf("%d endpoints; want the last profiler to have the connection alone", n)
	}
}

func TestANilProfilerOrOneThatIsOffChangesNothing(t *testing.T) {
	s := postgrestest.Start(t)
	cfg := poolConfig(t, s, s.Config(postgrestest.Verified))
	if Instrument(nil, cfg) != cfg || InstrumentConn(nil, cfg.ConnConfig) != cfg.ConnConfig || Instrument(new(profiler.Profiler), nil) != nil {
		t.Error("a nil Profiler wraps")
	}
	p := new(profiler.Profiler)
	p.Disable()
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) }
	db := open(t, Instrument(p, cfg))
	if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if r := p.Report(); len(r.Endpoints) != 0 {
		t.Errorf("report %v of a profiler that is off", r)
	}
}

func TestDatabaseSQLKeepsThePgxConnection(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	db := stdlib.OpenDB(*InstrumentConn(p, s.Config(postgrestest.Verified)))
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Raw(func(dc any) error {
		if _, ok := dc.(*stdlib.Conn); !ok {
			t.Errorf("Raw hands out a %T", dc)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var tx *sql.Tx
	if tx, err = conn.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT 1").Scan(&n); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	e := p.Report().Endpoint(s.Addr, profiler.RolePool)
	if first, reused := e.Queries(); e.Created != 1 || e.TLS.Handshakes != 1 || first != 1 || reused < 2 {
		t.Errorf("report %+v, %d first, %d reused; want begin, select and commit", e, first, reused)
	}
}

func TestAnOperationInsideAnotherIsPartOfIt(t *testing.T) {
	s := postgrestest.Start(t)
	p := new(profiler.Profiler)
	conn, _ := connect(t, p, s.Config(postgrestest.Plain))
	rows, err := conn.Query(t.Context(), "SELECT generate_series(1, 10)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("pgx ran a query on a busy connection")
	}
	rows.Close()
	b := new(pgx.Batch)
	b.Queue("SELECT 1")
	b.Queue("SELECT 2")
	if err := conn.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	if first, reused := p.Report().Endpoint("", profiler.RolePool).Queries(); first != 1 || reused != 1 {
		t.Errorf("%d first, %d reused; want the query and the batch", first, reused)
	}
}

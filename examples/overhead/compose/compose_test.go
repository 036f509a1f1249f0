package compose

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"os"
	"strings"
	"testing"
	"time"

	xsam "github.com/XSAM/otelsql"
	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.opentelemetry.io/contrib/instrumentation/go.mongodb.org/mongo-driver/mongo/otelmongo"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/pool/mongoprof"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/pool/pgxprof"
	"github.com/connprof/connprof/profiler"
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range []func() error{mariadbtest.Stop, postgrestest.Stop} {
		if err := stop(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

const ours = "github.com/connprof/connprof/exporters/oteltrace"

// A rig has one provider, for the program, the other instrumentation and us.
type rig struct {
	p     profiler.Profiler
	sink  *oteltrace.Sink
	tp    *sdktrace.TracerProvider
	spans *tracetest.SpanRecorder
}

func newRig(mode oteltrace.Queries) *rig {
	r := &rig{spans: tracetest.NewSpanRecorder()}
	r.tp = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.sink = oteltrace.New(r.tp)
	r.sink.Queries = mode
	r.p.Sinks = []profiler.Sink{r.sink}
	return r
}

func (r *rig) request(t *testing.T, name string, f func(ctx context.Context)) {
	ctx, span := r.tp.Tracer("program").Start(t.Context(), name)
	f(ctx)
	span.End()
}

// ended checks the order that all traces must have, and returns the spans and their parents' names.
func (r *rig) ended(t *testing.T) (spans []sdktrace.ReadOnlySpan, parents map[trace.SpanID]string) {
	t.Helper()
	parents = map[trace.SpanID]string{}
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range r.spans.Ended() {
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range r.spans.Ended() {
		parent := byID[s.Parent().SpanID()]
		if parent == nil {
			continue
		}
		parents[s.SpanContext().SpanID()] = parent.Name()
		if s.StartTime().UnixNano() < parent.StartTime().UnixNano() {
			t.Errorf("%s starts before its parent %s", s.Name(), parent.Name())
		}
		for _, l := range s.Links() {
			if byID[l.SpanContext.SpanID()] == nil {
				t.Errorf("%s has a dangling link", s.Name())
			}
		}
	}
	return r.spans.Ended(), parents
}

func attributesOf(kvs []attribute.KeyValue) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	for _, kv := range kvs {
		m[kv.Key] = kv.Value.AsInterface()
	}
	return m
}

// mission checks the three attributes of one query that say what TLS cost it.
func mission(t *testing.T, name string, a map[attribute.Key]any, index int64) {
	t.Helper()
	tls, _ := a["connprof.connection.tls.duration"].(float64)
	share, _ := a["connprof.tls.amortized"].(float64)
	if a["connprof.query.index"] != index || a["connprof.connection.reused"] != (index > 1) || tls <= 0 || share != tls/float64(index) {
		t.Errorf("%s: query %v (want %d), reused %v, TLS %v, of it %v for each", name, a["connprof.query.index"], index,
			a["connprof.connection.reused"], tls, share)
	}
	if _, there := a["connprof.phase.tls"]; there != (index == 1) {
		t.Errorf("%s: phases are there: %v", name, there)
	}
}

func (r *rig) checkCarried(t *testing.T, name func(string) bool, onSetup string) {
	t.Helper()
	spans, parents := r.ended(t)
	n := int64(0)
	for _, s := range spans {
		if s.InstrumentationScope().Name == ours {
			if s.SpanKind() == trace.SpanKindClient {
				t.Errorf("a query span of our own: %s", s.Name())
			}
			if strings.HasPrefix(s.Name(), "connection_setup") && parents[s.SpanContext().SpanID()] != onSetup {
				t.Errorf("%s is under %q, want %q", s.Name(), parents[s.SpanContext().SpanID()], onSetup)
			}
			continue
		}
		if name(s.Name()) {
			n++
			mission(t, s.Name(), attributesOf(s.Attributes()), n)
			if len(s.Links()) != 1 {
				t.Errorf("%s has %d links", s.Name(), len(s.Links()))
			}
		}
	}
	if n != 3 {
		t.Errorf("%d query spans of theirs, want 3", n)
	}
}

func TestUnderOtelsql(t *testing.T) {
	s := mariadbtest.Start(t)
	for _, mode := range []oteltrace.Queries{oteltrace.QueryAttributes, oteltrace.QuerySpans} {
		r := newRig(mode)
		connector, err := mysqlprof.Connector(&r.p, s.Config(mariadbtest.Verified))
		if err != nil {
			t.Fatal(err)
		}
		db := xsam.OpenDB(connector, xsam.WithTracerProvider(r.tp))
		db.SetMaxOpenConns(1)
		for range 3 {
			r.request(t, "GET /", func(ctx context.Context) {
				rows, err := db.QueryContext(ctx, "SELECT 1")
				if err != nil {
					t.Fatal(err)
				}
				for rows.Next() {
				}
				if err := rows.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
		db.Close()
		if mode == oteltrace.QueryAttributes {
			r.checkCarried(t, func(name string) bool { return name == "sql.conn.query" }, "sql.connector.connect")
			continue
		}
		n := int64(0)
		spans, parents := r.ended(t)
		for _, s := range spans {
			if s.InstrumentationScope().Name == ours && s.SpanKind() == trace.SpanKindClient {
				n++
				mission(t, s.Name(), attributesOf(s.Attributes()), n)
				if parents[s.SpanContext().SpanID()] != "sql.conn.query" || s.Name() != "SELECT" {
					t.Errorf("%s is under %s", s.Name(), parents[s.SpanContext().SpanID()])
				}
			}
		}
		if n != 3 {
			t.Errorf("%d query spans", n)
		}
	}
}

// C03 under another wrapper: its span is in the opener's context, which makes the create no caller's.
func TestABackgroundCreateUnderOtelsqlIsKnownForOne(t *testing.T) {
	s := mariadbtest.Start(t)
	r := newRig(oteltrace.QueryAttributes)
	connector, err := mysqlprof.Connector(&r.p, s.Config(mariadbtest.Verified))
	if err != nil {
		t.Fatal(err)
	}
	db := xsam.OpenDB(connector, xsam.WithTracerProvider(r.tp))
	defer db.Close()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		ctx, span := r.tp.Tracer("program").Start(t.Context(), "GET /")
		defer span.End()
		_, err := db.ExecContext(profiler.Asked(ctx), "DO 1")
		done <- err
	}()
	for db.Stats().WaitCount == 0 {
		time.Sleep(time.Millisecond)
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	spans, _ := r.ended(t)
	var setup trace.SpanID
	for _, s := range spans {
		a := attributesOf(s.Attributes())
		if a["connprof.create.background"] == true {
			setup = s.SpanContext().SpanID()
		}
		if s.Name() != "sql.conn.exec" {
			continue
		}
		if a["connprof.waited_for"] != "background_create" || a["connprof.query.index"] != int64(1) || len(s.Links()) != 1 ||
			s.Links()[0].SpanContext.SpanID() != setup {
			t.Errorf("the first operation has %v, links %v to %v", a, s.Links(), setup)
		}
	}
	if !setup.IsValid() {
		t.Error("no create in the background")
	}
}

func TestWithOtelpgx(t *testing.T) {
	s := postgrestest.Start(t)
	for _, mode := range []oteltrace.Queries{oteltrace.QueryAttributes, oteltrace.QuerySpans} {
		r := newRig(mode)
		cfg, err := pgxpool.ParseConfig(s.DSN(postgrestest.User, postgrestest.Password, "sslmode=disable"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig = s.Config(postgrestest.Verified)
		cfg.MaxConns = 1
		cfg.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(r.tp))
		db, err := pgxpool.NewWithConfig(t.Context(), pgxprof.Instrument(&r.p, cfg))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.request(t, "GET /", func(ctx context.Context) {
				if _, err := db.Exec(ctx, "SELECT 1"); err != nil {
					t.Fatal(err)
				}
			})
		}
		db.Close()
		if mode == oteltrace.QueryAttributes {
			r.checkCarried(t, func(name string) bool { return name == "SELECT" }, "pool.acquire")
			continue
		}
		spans, parents := r.ended(t) // our span begins no earlier than theirs
		n := 0
		for _, s := range spans {
			if s.InstrumentationScope().Name == ours && s.SpanKind() == trace.SpanKindClient {
				if n++; parents[s.SpanContext().SpanID()] != "SELECT" { // theirs
					t.Errorf("%s is under %s", s.Name(), parents[s.SpanContext().SpanID()])
				}
			}
		}
		if n != 3 {
			t.Errorf("%d query spans", n)
		}
	}
}

// otelmongo starts its span in CommandMonitor.Started, whose context goes nowhere: the caller's span is all there is.
func TestWithOtelmongo(t *testing.T) {
	ca := certtest.NewCA(certtest.ECDSA)
	s := mongotest.Start(t, mongotest.Options{TLS: &tls.Config{Certificates: []tls.Certificate{ca.Issue(certtest.Leaf{}).TLS}}})
	r := newRig(oteltrace.QueryAttributes)
	o := options.Client().ApplyURI(s.URI("")).SetTLSConfig(&tls.Config{RootCAs: ca.Pool()}).SetMonitor(otelmongo.NewMonitor(otelmongo.WithTracerProvider(r.tp)))
	client, err := mongo.Connect(t.Context(), mongoprof.Instrument(&r.p, o))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	r.request(t, "GET /", func(ctx context.Context) {
		for range 3 {
			if _, err := client.Database("shop").Collection("orders").InsertOne(ctx, bson.D{{Key: "a", Value: 1}}); err != nil {
				t.Fatal(err)
			}
		}
	})
	spans, _ := r.ended(t)
	theirs := 0
	for _, s := range spans {
		switch {
		case s.Name() == "GET /":
			if len(s.Attributes()) != 0 || len(s.Events()) != 3 {
				t.Fatalf("the caller's span has %d attributes and %d events", len(s.Attributes()), len(s.Events()))
			}
			for i, e := range s.Events() {
				a := attributesOf(e.Attributes)
				mission(t, e.Name, a, int64(i+1))
				if e.Name != "connprof.query" || a["db.operation.name"] != "insert" || a["db.namespace"] != "shop" {
					t.Errorf("%s %v", e.Name, a)
				}
			}
		case s.InstrumentationScope().Name == ours:
			if s.SpanKind() == trace.SpanKindClient {
				t.Errorf("a query span of our own: %s", s.Name())
			}
		default:
			theirs++
			if _, there := attributesOf(s.Attributes())["connprof.query.index"]; there {
				t.Errorf("%s has our attributes", s.Name())
			}
		}
	}
	if theirs != 3 {
		t.Errorf("%d spans of otelmongo", theirs)
	}
}

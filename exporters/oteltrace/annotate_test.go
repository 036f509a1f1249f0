package oteltrace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

// wrapped runs a query as a wrapper does that has spans of its own: in its context, and ended at the first response.
func (r *rig) wrapped(ctx context.Context, c *profiler.Conn, d time.Duration) {
	ctx, span := r.tracer.Start(ctx, "sql.conn.query", trace.WithSpanKind(trace.SpanKindClient))
	o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
	o.Text = "SELECT name FROM cart WHERE id = 42"
	time.Sleep(d)
	o.Responded(ctx, profiler.Now(), nil)
	span.End()
	time.Sleep(d)
	o.End(ctx, profiler.Now(), nil)
}

func TestWithoutQuerySpansTheSpanThatIsThereHasTheAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.sink.Queries = oteltrace.QueryAttributes
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		ctx = profiler.Asked(ctx)
		time.Sleep(2 * ms)
		c := r.pooled(ctx, secured...)
		r.wrapped(ctx, c, 5*ms)
		c.CheckedIn(0)
		time.Sleep(30 * ms)
		c.CheckedOut(ctx, 0, profiler.Now())
		r.wrapped(ctx, c, ms)
		span.End()
		if got := r.tree(t); got != `
GET / 0+64
  connection_setup db.internal:3306 2+20
    resolve 2+2
    connect 4+3
    greet 7+1
    tls 8+8
    verify 16+0
    auth+setup 16+4
  sql.conn.query 22+5 [client] → connection_setup db.internal:3306
  sql.conn.query 62+1 [client] → connection_setup db.internal:3306
` {
			t.Error(got)
		}
		spans := r.ended(t)["sql.conn.query"]
		require.Equal(t, attrs{
			"connprof.connection.id": "1", "connprof.connection.reused": false, "connprof.query.index": int64(1),
			"connprof.query.first_response": 0.005, "connprof.connection.tls.duration": 0.008, "connprof.tls.amortized": 0.008,
			"connprof.connection.create": 0.02, "connprof.wait": 0.022, "connprof.queued": 0.002, "connprof.waited_for": "create",
			"connprof.query.attempts": int64(1),
			"connprof.phase.resolve":  0.002, "connprof.phase.connect": 0.003, "connprof.phase.greet": 0.001, "connprof.phase.tls": 0.008,
			"connprof.phase.verify": 0.0, "connprof.phase.auth_setup": 0.004, "connprof.phase.other": 0.002,
		}, attributesOf(spans[0]))
		require.Equal(t, attrs{
			"connprof.connection.id": "1", "connprof.connection.reused": true, "connprof.query.index": int64(2),
			"connprof.query.first_response": 0.001, "connprof.connection.tls.duration": 0.008, "connprof.tls.amortized": 0.004,
			"connprof.connection.idle": 0.03,
		}, attributesOf(spans[1]))
	})
}

func TestWithoutQuerySpansACommandIsAnEventOfItsCaller(t *testing.T) {
	for _, tt := range []struct {
		name string
		mode oteltrace.Queries
		e    profiler.Endpoint
	}{
		{"MongoDB has no span of its own in the context", oteltrace.QueryAttributes, profiler.Endpoint{System: "mongodb", Address: "mongo:27017"}},
		{"events for all", oteltrace.QueryEvents, shop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig()
				r.sink.Queries = tt.mode
				ctx, span := r.tracer.Start(context.Background(), "GET /")
				c := r.make(tt.e, profiler.RolePool, step{profiler.TLS, 8 * ms})
				c.Ready(ctx)
				for _, err := range []error{nil, errors.New("no such thing as bob")} {
					o := c.Begin(ctx, profiler.OpCommand, profiler.Now())
					o.Name, o.NS, o.Coll = "find", "catalog", "items"
					time.Sleep(2 * ms)
					o.End(ctx, profiler.Now(), err)
				}
				span.End()
				require.Empty(t, r.ended(t)["find items"])
				s := r.ended(t)["GET /"][0]
				require.Empty(t, s.Attributes())
				require.Empty(t, s.Links())
				require.Len(t, s.Events(), 2)
				at := func(e sdktrace.Event) (attrs, int64) {
					m := attrs{}
					for _, kv := range e.Attributes {
						m[kv.Key] = kv.Value.AsInterface()
					}
					require.Equal(t, "connprof.query", e.Name)
					return m, e.Time.UnixNano() - r.start.UnixNano()
				}
				first, when := at(s.Events()[0])
				require.EqualValues(t, 10*ms, when)
				for k, v := range (attrs{
					"db.operation.name": "find", "db.namespace": "catalog", "db.collection.name": "items", "connprof.connection.reused": false,
					"connprof.connection.id": "1", "connprof.query.index": int64(1), "connprof.connection.tls.duration": 0.008,
					"connprof.tls.amortized": 0.008, "connprof.phase.tls": 0.008,
				}) {
					require.Equal(t, v, first[k], string(k))
				}
				second, when := at(s.Events()[1])
				require.EqualValues(t, 12*ms, when)
				require.Equal(t, 0.004, second["connprof.tls.amortized"])
				require.Equal(t, "*errors.errorString", second["error.type"])
			})
		})
	}
}

func TestWithoutQuerySpansNothingIsDoneWithoutASampledSpan(t *testing.T) {
	r := newRig()
	r.sink.Queries = oteltrace.QueryAttributes
	r.sink.MaxConnectionTraces = -1
	c := r.pooled(remote(context.Background(), 0))
	for _, ctx := range []context.Context{context.Background(), remote(context.Background(), 0), remote(context.Background(), trace.FlagsSampled)} {
		query(ctx, c, 0)
		if n := testing.AllocsPerRun(100, func() { r.sink.Wants(ctx, profiler.KindFirstResponse, c, 2) }); n != 0 {
			t.Errorf("%g allocations", n)
		}
		if r.sink.Wants(ctx, profiler.KindOperation, c, 2) {
			t.Error("ends are of no use here")
		}
	}
	require.Empty(t, r.spans.Started())
}

// A tracer of pgx is called after us, so that its span starts a moment later than the operation.
func TestAQueryDoesNotStartBeforeASpanThatAnotherTracerMadeForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		c := r.pooled(ctx)
		o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
		time.Sleep(time.Microsecond)
		inner, theirs := r.tracer.Start(ctx, "query SELECT")
		time.Sleep(ms)
		o.End(inner, profiler.Now(), nil)
		theirs.End()
		span.End()
		spans := r.ended(t) // checks the order
		require.Equal(t, spans["query SELECT"][0].SpanContext().SpanID(), spans["query shop"][0].Parent().SpanID())
		require.Equal(t, 0.001001, attributesOf(spans["query shop"][0])["connprof.query.first_response"])
	})
}

func TestPreparingHasASpanOnlyIfAskedForOrFailed(t *testing.T) {
	for _, asked := range []bool{false, true} {
		r := newRig()
		r.sink.Prepares = asked
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		c := r.pooled(ctx)
		for _, err := range []error{nil, errors.New("no such table")} {
			o := c.Begin(ctx, profiler.OpPrepare, profiler.Now())
			o.Text = "SELECT name FROM cart WHERE id = ?"
			o.End(ctx, profiler.Now(), err)
		}
		span.End()
		want := 1
		if asked {
			want = 2
		}
		if n := len(r.ended(t)["PREPARE SELECT cart"]); n != want {
			t.Errorf("asked for %v: %d spans", asked, n)
		}
	}
}

func TestTransactionsAreNamedAfterTheirStatements(t *testing.T) {
	r := newRig()
	ctx, span := r.tracer.Start(context.Background(), "GET /")
	c := r.pooled(ctx)
	for _, k := range []profiler.OpKind{profiler.OpBegin, profiler.OpCommit, profiler.OpRollback, profiler.OpBatch, profiler.OpCopy} {
		o := c.Begin(ctx, k, profiler.Now())
		o.End(ctx, profiler.Now(), nil)
	}
	span.End()
	spans := r.ended(t)
	for _, name := range []string{"BEGIN", "COMMIT", "ROLLBACK", "BATCH", "COPY"} {
		require.Len(t, spans[name], 1)
		require.Contains(t, spans[name][0].Attributes(), attribute.String("db.operation.name", name))
		require.Contains(t, spans[name][0].Attributes(), attribute.String("db.query.summary", name))
	}
}

func TestWhatAnOperationMetIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		stale, c := r.pooled(ctx), r.pooled(ctx)
		query(ctx, stale, ms)
		stale.CheckedIn(profiler.Now())
		time.Sleep(time.Minute)
		ctx = profiler.Asked(ctx)
		stale.Stale(ctx, profiler.Now())
		o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
		o.Text, o.Prepared, o.Turns = "SELECT 1", profiler.PreparedOnce, 2
		time.Sleep(ms)
		o.Responded(ctx, profiler.Now(), nil)
		o.Driver, o.Consumer = ms, 2*ms
		o.End(ctx, profiler.Now(), nil)
		span.End()
		got := attributesOf(r.ended(t)["SELECT"][0])
		for k, v := range (attrs{
			"connprof.query.attempts": int64(2), "connprof.query.stale_idle": 60.0, "connprof.waited_for": "free",
			"connprof.query.prepared": "once", "connprof.query.turns": int64(2), "connprof.query.rows.driver": 0.001,
			"connprof.query.rows.consumer": 0.002,
		}) {
			require.Equal(t, v, got[k], string(k))
		}
	})
}

func TestADriversOwnCodeIsTheTypeOfAnError(t *testing.T) {
	r := newRig()
	c := r.pooled(context.Background())
	o := c.Begin(context.Background(), profiler.OpExec, profiler.Now())
	o.End(context.Background(), profiler.Now(), sqlState("23505"))
	failed := r.make(shop, profiler.RolePool, plain...)
	failed.Fail(context.Background(), sqlState("28P01"))
	spans := r.ended(t)
	for name, code := range map[string]string{"exec shop": "23505", setup: "28P01"} {
		s := spans[name][len(spans[name])-1]
		require.Contains(t, s.Attributes(), attribute.String("db.response.status_code", code))
		require.Contains(t, s.Attributes(), attribute.String("error.type", code))
	}
}

type sqlState string

func (s sqlState) SQLState() string { return string(s) }
func (s sqlState) Error() string    { return "secret " + string(s) }

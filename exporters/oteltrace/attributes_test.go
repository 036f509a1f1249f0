package oteltrace_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/connprof/connprof/profiler"
)

type attrs = map[attribute.Key]any

func TestQueryAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		ctx, span := r.tracer.Start(context.Background(), "GET /")
		marked := profiler.Asked(ctx)
		time.Sleep(500 * time.Microsecond)
		c := r.pooled(marked, secured...)
		query(marked, c, 5*ms)
		c.CheckedIn(0)
		time.Sleep(30 * ms)
		c.CheckedOut(ctx, 0, profiler.Now())
		o := c.Begin(ctx, profiler.OpExec, profiler.Now())
		o.Text, o.Turns = "DELETE FROM cart WHERE user = 'bob'", 2
		o.Sent, o.Received, o.BytesKnown = 80, 0, true
		time.Sleep(1 * ms)
		o.End(ctx, profiler.Now(), errors.New("no such user bob"))
		span.End()

		common := attrs{
			"db.system.name": "mysql", "db.namespace": "shop", "server.address": "db.internal", "server.port": int64(3306),
			"network.peer.address": "10.1.2.3", "network.peer.port": int64(3306),
			"connprof.connection.id": "1", "connprof.connection.tls.duration": 0.008,
		}
		with := func(m attrs) attrs { maps.Copy(m, common); return m }
		spans := r.ended(t)
		require.Equal(t, with(attrs{
			"db.query.summary": "SELECT cart", "db.operation.name": "SELECT", "db.collection.name": "cart", "connprof.connection.reused": false, "connprof.query.index": int64(1),
			"connprof.query.first_response": 0.005, "connprof.tls.amortized": 0.008, "connprof.connection.create": 0.02,
			"connprof.wait": 0.0205, "connprof.queued": 0.0005, "connprof.waited_for": "create", "connprof.query.attempts": int64(1),
			"connprof.phase.resolve": 0.002, "connprof.phase.connect": 0.003, "connprof.phase.greet": 0.001, "connprof.phase.tls": 0.008,
			"connprof.phase.verify": 0.0, "connprof.phase.auth_setup": 0.004, "connprof.phase.other": 0.002,
		}), attributesOf(spans["SELECT cart"][0]))
		require.Equal(t, with(attrs{
			"db.query.summary": "DELETE cart", "db.operation.name": "DELETE", "db.collection.name": "cart", "connprof.connection.reused": true, "connprof.query.index": int64(2),
			"connprof.query.first_response": 0.001, "connprof.tls.amortized": 0.004, "connprof.connection.idle": 0.03,
			"connprof.query.turns": int64(2), "connprof.query.sent": int64(80), "connprof.query.received": int64(0), "error.type": "*errors.errorString",
		}), attributesOf(spans["DELETE cart"][0]))
	})
}

func TestConnectionAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		c := r.make(shop, profiler.RolePool, secured...)
		c.Attempt(profiler.Attempt{Address: "10.1.2.2:3306", Begin: 2 * ms, Duration: ms, Reached: profiler.Connect, Err: errors.New("refused")})
		time.Sleep(ms)
		c.Cut(profiler.Attempts, profiler.Now())
		c.Ready(context.Background())
		spans := r.ended(t)
		tls := attrs{
			"tls.protocol.name": "tls", "tls.protocol.version": "1.3", "tls.cipher": "TLS_AES_128_GCM_SHA256", "tls.curve": "X25519MLKEM768",
			"tls.resumed": false, "connprof.tls.hello_retry": true,
		}
		want := attrs{
			"db.system.name": "mysql", "db.namespace": "shop", "server.address": "db.internal", "server.port": int64(3306),
			"network.peer.address": "10.1.2.3", "network.peer.port": int64(3306), "network.transport": "tcp",
			"db.client.connection.pool.name": "orders", "connprof.connection.id": "1", "connprof.connection.tls.duration": 0.008,
			"connprof.create.background": false, "connprof.tcp.rtt": 0.0025, "connprof.tcp.retransmits": int64(1),
		}
		maps.Copy(want, tls)
		require.Equal(t, want, attributesOf(spans["connection_setup db.internal:3306"][0]))
		require.Equal(t, tls, attributesOf(spans["tls"][0]))
		require.Equal(t, attrs{"dns.question.name": "db.internal", "connprof.resolve.answers": int64(2), "connprof.resolve.lookups": int64(1)},
			attributesOf(spans["resolve"][0]))
		events := spans["attempts"][0].Events()
		require.Len(t, events, 1)
		require.Equal(t, "attempt_lost", events[0].Name)
		require.Equal(t, r.start.Add(2*ms).UnixNano(), events[0].Time.UnixNano())
	})
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	for _, tt := range []struct {
		name string
		seen func(*profiler.Create)
		want any // connprof.connection.tls.duration
	}{
		{"no TLS took no time", func(cr *profiler.Create) { cr.Wire.Transport = profiler.TransportTCP }, 0.0},
		{"TLS inside an opaque dialer is not known", func(cr *profiler.Create) {
			cr.Wire.Transport, cr.TLS.Inside = profiler.TransportOpaque, true
		}, nil},
		{"nothing was seen of the wire", func(*profiler.Create) {}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig()
			c := r.p.NewConn(profiler.Endpoint{System: "mysql", Address: "/run/mysqld.sock"}, profiler.RolePool)
			c.Update(tt.seen)
			c.Ready(context.Background())
			query(context.Background(), c, 0)
			got := attributesOf(r.ended(t)["SELECT cart"][0])
			require.Equal(t, tt.want, got["connprof.connection.tls.duration"])
			require.Equal(t, tt.want, got["connprof.tls.amortized"])
			require.Equal(t, "/run/mysqld.sock", got["server.address"])
			for _, k := range []attribute.Key{"server.port", "network.peer.address", "db.namespace", "connprof.wait", "connprof.connection.idle"} {
				require.NotContains(t, got, k)
			}
		})
	}
}

func TestQueryTextIsThereOnlyIfAskedFor(t *testing.T) {
	for _, on := range []bool{false, true} {
		r := newRig()
		r.sink.QueryText = on
		query(context.Background(), r.pooled(context.Background()), 0)
		text, there := attributesOf(r.ended(t)["SELECT cart"][0])["db.query.text"]
		if there != on || on && text != "SELECT name FROM cart WHERE id = ?" {
			t.Errorf("QueryText %t: db.query.text is %v", on, text)
		}
	}
}

func TestErrorType(t *testing.T) {
	r := newRig()
	c := r.pooled(context.Background())
	for _, err := range []error{context.DeadlineExceeded, context.Canceled, errors.New("Duplicate entry 'bob'")} {
		o := c.Begin(context.Background(), profiler.OpQuery, profiler.Now())
		o.End(context.Background(), profiler.Now(), err)
	}
	var got []any
	for _, s := range r.ended(t)["query shop"] {
		got = append(got, attributesOf(s)["error.type"])
	}
	require.Equal(t, []any{"timeout", "canceled", "*errors.errorString"}, got)
}

func TestAFailedCreateHasAClassAndItsLoginsTurns(t *testing.T) {
	r := newRig()
	c := r.make(shop, profiler.RolePool, plain...)
	c.Update(func(cr *profiler.Create) {
		cr.Failed, cr.Wire.AuthTurns, cr.Wire.AuthWait = profiler.Auth, 3, 2*ms
	})
	c.Fail(context.Background(), errors.New("Access denied for user bob"))
	spans := r.ended(t)
	require.Equal(t, attrs{"error.type": "rejected", "connprof.auth.turns": int64(3), "connprof.auth.wait": 0.002}, attributesOf(spans["auth"][0]))
	a := attributesOf(spans["connection_setup db.internal:3306"][0])
	require.Equal(t, "rejected", a["error.type"])
	require.Equal(t, "auth", a["connprof.create.failed_phase"])
	for _, s := range r.spans.Ended() {
		require.Empty(t, s.Events(), "an exception would hold the text")
	}
}

func TestAThousandErrorsAndTextsGiveFewValuesAndNoneOfTheirWords(t *testing.T) {
	r := newRig()
	r.sink.QueryText = true
	ctx, span := r.tracer.Start(context.Background(), "GET /")
	c := r.pooled(ctx, secured...)
	for i := range 1000 {
		o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
		o.Text = fmt.Sprintf("SELECT a FROM t WHERE secret = 'secret %d' AND n = %d", i, i)
		o.End(ctx, profiler.Now(), fmt.Errorf("Duplicate entry 'secret %d': %w", i, &mysql.MySQLError{Number: 1062, Message: fmt.Sprint("secret ", i)}))
	}
	span.End()
	values := map[attribute.Key]map[any]bool{}
	most := 0
	for _, s := range r.ended(t)["SELECT t"] {
		most = max(most, len(s.Attributes()))
		require.NotContains(t, s.Status().Description, "secret")
		require.Empty(t, s.Events())
		for k, v := range attributesOf(s) {
			if values[k] == nil {
				values[k] = map[any]bool{}
			}
			values[k][v] = true
		}
	}
	require.Equal(t, map[any]bool{"1062": true}, values["error.type"])
	require.Equal(t, map[any]bool{"SELECT a FROM t WHERE secret = ? AND n = ?": true}, values["db.query.text"])
	for k, vs := range values {
		if _, number := firstOf(vs).(float64); len(vs) > 1 && !number && k != "connprof.query.index" && k != "connprof.connection.reused" {
			t.Errorf("%s has %d values", k, len(vs))
		}
	}
	if most > 40 {
		t.Errorf("%d attributes on a span", most)
	}
}

func firstOf(vs map[any]bool) any {
	for v := range vs {
		return v
	}
	return nil
}

package otelmetric_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

// series counts the points, and the values of each attribute.
func series(sets map[string][]attribute.Set) (n int, values map[attribute.Key]map[string]bool) {
	values = map[attribute.Key]map[string]bool{}
	for _, of := range sets {
		n += len(of)
		for _, set := range of {
			for _, kv := range set.ToSlice() {
				if values[kv.Key] == nil {
					values[kv.Key] = map[string]bool{}
				}
				values[kv.Key][kv.Value.String()] = true
			}
		}
	}
	return n, values
}

func TestSeriesDoNotGrowWithConnectionsOrErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p profiler.Profiler
		m := otelmetric.New(&p)
		ctx := context.Background()
		live := func(connections, failures int) {
			for i := range connections {
				c := begin(&p, shop, profiler.RolePool, step{profiler.Connect, 1 * ms}, step{profiler.TLS, 1 * ms}, step{profiler.Auth, 1 * ms})
				c.Update(func(cr *profiler.Create) {
					cr.Wire.Local = fmt.Sprintf("10.0.0.1:%d", 20_000+i)
					cr.Attempts = append(cr.Attempts, profiler.Attempt{Address: cr.Wire.Local})
				})
				c.Ready(ctx)
				c.CheckedOut(ctx, 0, profiler.Now())
				query(ctx, c, 1*ms, nil)
				query(ctx, c, 1*ms, fmt.Errorf("duplicate entry %d", i))
				c.CheckedIn(0)
				c.Closed(profiler.CloseIdleLimit, nil)
			}
			for i := range failures {
				c := begin(&p, shop, profiler.RolePool, step{profiler.Connect, 1 * ms})
				c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Connect })
				c.Fail(ctx, fmt.Errorf("attempt %d: %w", i, errors.New("refused")))
			}
		}
		live(1, 1)
		few, before := series(points(produce(t, m)))
		live(9_999, 999)
		many, values := series(points(produce(t, m)))
		if few != many {
			t.Errorf("%d points for 10,000 connections and 1,000 errors, %d for one of each", many, few)
		}
		for key, vs := range values {
			if len(vs) != len(before[key]) {
				t.Errorf("%s has %d values, %d before: %v", key, len(vs), len(before[key]), vs)
			}
			for v := range vs {
				if strings.Contains(v, "10.0.0.1") || strings.Contains(v, "duplicate") || strings.Contains(v, "refused") {
					t.Errorf("%s = %s", key, v)
				}
			}
		}
	})
}

func TestSeriesAreBoundedByTheEndpoints(t *testing.T) {
	var p profiler.Profiler
	m := otelmetric.New(&p)
	busy(&p, 300, 1)
	at, _ := series(points(produce(t, m)))
	busy(&p, 400, 1)
	over, values := series(points(produce(t, m)))
	const each = 17 // points of one endpoint
	if at > 300*each+10 || over > at+each {
		t.Errorf("%d points for 300 endpoints, %d for 400", at, over)
	}
	for key, vs := range values {
		if len(vs) > 301 {
			t.Errorf("%s has %d values", key, len(vs))
		}
	}
	if !values["server.address"]["(other)"] || len(values["server.address"]) != 301 {
		t.Errorf("%d addresses", len(values["server.address"]))
	}
}

// busy gives each of n endpoints some connections, to all of which all happens that happens to a MySQL pool over TLS.
func busy(p *profiler.Profiler, n, conns int) {
	ctx := context.Background()
	for i := range n {
		e := profiler.Endpoint{System: "mysql", Address: fmt.Sprintf("db%d.internal:3306", i), Namespace: "shop"}
		for range conns {
			asked := profiler.Now()
			c := begin(p, e, profiler.RolePool, step{profiler.Resolve, 0}, step{profiler.Connect, 0}, step{profiler.Greet, 0},
				step{profiler.TLS, 0}, step{profiler.Verify, 0}, step{profiler.AuthSetup, 0})
			c.Ready(ctx)
			c.CheckedOut(ctx, asked, profiler.Now())
			query(ctx, c, 0, nil)
			c.CheckedIn(0)
			c.CheckedOut(ctx, profiler.Now(), profiler.Now())
			query(ctx, c, 0, nil)
			c.CheckedIn(0)
			c.Closed(profiler.CloseLifetime, nil)
		}
	}
}

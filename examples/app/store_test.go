package app

import (
	"sync"
	"testing"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/exporters/bench"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/profiler"
)

// open is a store whose connections p watches, and the key of a document in it.
func open(tb testing.TB, p *profiler.Profiler) (*Store, string) {
	tb.Helper()
	m, err := embedded.StartMySQL(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close() })
	config := m.Config(true)
	config.InterpolateParams = true
	db, err := mysqlprof.OpenConfig(p, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return &Store{db}, embedded.Key(0)
}

// One line, bench.Profiler(b), and the benchmark tells what connections cost it.
func BenchmarkField(b *testing.B) {
	s, key := open(b, bench.Profiler(b))
	for b.Loop() {
		if _, err := s.Field(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}

// The same with a pool that keeps no connection: conns/op and reuse-% show what went wrong, and ns/op what it costs.
func BenchmarkFieldWithoutIdleConnections(b *testing.B) {
	s, key := open(b, bench.Profiler(b))
	s.DB.SetMaxIdleConns(-1)
	for b.Loop() {
		if _, err := s.Field(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}

// A test like this one fails when a change breaks the reuse of connections.
func TestFieldReusesConnections(t *testing.T) {
	var p profiler.Profiler
	s, key := open(t, &p)
	s.DB.SetMaxIdleConns(4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if _, err := s.Field(t.Context(), key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	bench.RequireReuse(t, &p, 0.95)
}

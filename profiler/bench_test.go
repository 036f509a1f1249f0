package profiler

import (
	"context"
	"testing"
)

// one is a whole reused operation: checked out, begun, responded, ended, checked in. Its clock is read three times.
func one(c *Conn, ctx context.Context) {
	start := Now()
	c.CheckedOut(ctx, 0, start)
	o := c.Begin(ctx, OpQuery, start)
	o.Responded(ctx, Now(), nil)
	o.End(ctx, Now(), nil)
	c.CheckedIn(0)
}

type benchmark struct {
	name string
	p    *Profiler
	ctx  context.Context
}

type depth int

// deep is a context twelve values deep.
func deep() context.Context {
	ctx := context.Background()
	for i := range depth(12) {
		ctx = context.WithValue(ctx, i, i)
	}
	return ctx
}

func benchmarks(decline Sink) []benchmark {
	return []benchmark{
		{"alone", new(Profiler), deep()},
		{"sink that declines", &Profiler{Sinks: []Sink{decline}}, deep()},
		{"holders", &Profiler{Holders: true}, deep()},
		{"mark", new(Profiler), Asked(deep())},
		{"sink and mark", &Profiler{Sinks: []Sink{decline}}, WithSink(deep(), decline)},
		{"mark twelve deep", new(Profiler), deepOver(Asked(context.Background()))},
	}
}

func deepOver(ctx context.Context) context.Context {
	for i := range depth(12) {
		ctx = context.WithValue(ctx, i, i)
	}
	return ctx
}

func BenchmarkOp(b *testing.B) {
	run := func(name string, c *Conn, ctx context.Context) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				one(c, ctx)
			}
		})
	}
	marks.Store(false) // as in a program that uses no marks
	b.Run("clock", func(b *testing.B) {
		for range b.N {
			Now()
		}
	})
	run("nil", nil, deep())
	off := new(Profiler)
	c := off.NewConn(orders, RolePool)
	c.Ready(noContext)
	off.Disable()
	run("off", c, deep())
	alone := new(Profiler)
	c = alone.NewConn(orders, RolePool)
	c.Ready(noContext)
	run("alone without marks", c, deep())
	for _, bm := range benchmarks(sinkFunc(func(context.Context, Event) {})) {
		c := bm.p.NewConn(orders, RolePool)
		c.Ready(noContext)
		run(bm.name, c, bm.ctx)
	}
	b.Run("four connections in parallel", func(b *testing.B) {
		p := new(Profiler)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			c := p.NewConn(orders, RolePool)
			c.Ready(noContext)
			for ctx := deep(); pb.Next(); {
				one(c, ctx)
			}
		})
	})
}

func BenchmarkCreate(b *testing.B) {
	p := Profiler{Sinks: []Sink{sinkFunc(func(context.Context, Event) {})}}
	b.ReportAllocs()
	for range b.N {
		typical(&p, context.Background()).Closed(CloseIdleLimit, nil)
	}
}

func BenchmarkReport(b *testing.B) {
	var p Profiler
	for range 20 {
		typical(&p, context.Background())
	}
	b.ReportAllocs()
	for range b.N {
		p.Report()
	}
}

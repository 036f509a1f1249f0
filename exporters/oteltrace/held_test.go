package oteltrace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/connprof/connprof/profiler"
)

const setup = "connection_setup db.internal:3306"

func TestACreateWithoutACallerIsHeldForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		used := r.pooled(context.Background())
		r.pooled(noCaller, step{profiler.Connect, ms})
		r.pooled(noCaller, step{profiler.Connect, ms})
		time.Sleep(10*time.Second - 2*ms)
		query(context.Background(), used, 0)
		require.Len(t, r.ended(t)[setup], 1, "too early")
		time.Sleep(ms)
		query(context.Background(), used, 0)
		require.Len(t, r.ended(t)[setup], 2, "the older is due, the younger is not")
		time.Sleep(ms)
		query(context.Background(), used, 0)
		require.Len(t, r.ended(t)[setup], 3)
		r.sink.Flush()
		require.Len(t, r.ended(t)[setup], 3)
	})
}

func TestFlushEmitsWhatIsHeldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		c := r.pooled(noCaller, step{profiler.Connect, ms})
		require.Empty(t, r.spans.Started())
		r.sink.Flush()
		r.sink.Flush()
		query(context.Background(), c, ms)
		c.Closed(profiler.CloseIdleTime, nil)
		r.p.Flush()
		spans := r.ended(t)
		require.Len(t, spans[setup], 1)
		require.Len(t, spans["SELECT cart"][0].Links(), 1, "what was flushed can still be linked to")
	})
}

func TestAFirstOperationThatWasExcludedLeavesTheCreateHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		c := r.pooled(noCaller, step{profiler.Connect, ms})
		o := c.Begin(context.Background(), profiler.OpCommand, profiler.Now())
		o.Exclude(profiler.Now())
		query(context.Background(), c, ms)
		require.Empty(t, r.ended(t)[setup])
		r.sink.Flush()
		require.Len(t, r.ended(t)[setup], 1)
	})
}

func TestHeldCreatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.sink.MaxConnectionTraces = -1
		for range 1000 {
			r.pooled(noCaller)
		}
		require.Len(t, r.ended(t)[setup], 1000-256)
		r.sink.Flush()
		require.Len(t, r.ended(t)[setup], 1000)
		require.Zero(t, r.sink.Dropped())
	})
}

func TestConnectionTracesASecondAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for range 150 {
			ctx, span := r.tracer.Start(context.Background(), "GET /")
			query(ctx, r.pooled(ctx), 0)
			span.End()
		}
		require.Len(t, r.ended(t)[setup], 100)
		require.Len(t, r.ended(t)["SELECT cart"], 150)
		require.EqualValues(t, 50, r.sink.Dropped())
		time.Sleep(time.Second)
		r.pooled(context.Background())
		require.Len(t, r.ended(t)[setup], 101)
		require.EqualValues(t, 50, r.sink.Dropped())
	})
}

func TestTwoThousandConnectionsAtOnce(t *testing.T) {
	r := newRig()
	r.sink.MaxConnectionTraces = -1
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			ctx, span := r.tracer.Start(context.Background(), "GET /")
			defer span.End()
			caller := ctx
			if i%2 == 0 {
				caller, ctx = nil, profiler.Asked(ctx)
			}
			c := r.pooled(caller, step{profiler.Connect, 0}, step{profiler.TLS, 0})
			query(ctx, c, 0)
			query(ctx, c, 0)
			c.Closed(profiler.CloseIdleLimit, nil)
		})
	}
	wg.Wait()
	r.p.Flush()
	r.sink.Flush()
	spans := r.ended(t)
	require.Len(t, spans[setup], 2000)
	require.Len(t, spans["SELECT cart"], 4000)
	for _, s := range spans["SELECT cart"] {
		require.Len(t, s.Links(), 1)
	}
	require.Zero(t, r.p.Report().SinkPanics)
}

package oteltrace

import (
	"context"
	"testing"
	"time"
	"unsafe"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/profiler"
)

// stepped returns t as a clock would have read it that was stepped by d: the wall moves, the monotonic reading stays. The first word of a
// time.Time with a monotonic reading holds the wall clock's seconds in bits 30 to 62 and its nanoseconds below; t must leave room there.
func stepped(t time.Time, d time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(d/time.Second)<<30 + uint64(d%time.Second)
	return t
}

// evenNow is now, on an even second of the wall clock.
func evenNow() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.Nanosecond()))
}

func TestShiftPlacesChildrenOnTheirParentsClock(t *testing.T) {
	const µs = time.Microsecond
	now := evenNow()
	if d := stepped(now, time.Hour+5*µs); d.Sub(now) != 0 || d.UnixNano()-now.UnixNano() != int64(time.Hour+5*µs) {
		t.Fatalf("a stepped time is no longer what it should be: %v", d)
	}
	for _, tt := range []struct {
		name   string
		parent time.Time
		child  time.Duration // after the parent, by the monotonic clock
		want   time.Duration
	}{
		{"nothing for a parent that does not tell its start", time.Time{}, 5 * µs, 0},
		{"nothing on one clock", now, 5 * µs, 0},
		{"a step forward since the connection was made", stepped(now, time.Hour), 5 * µs, time.Hour},
		{"a step back since the connection was made", stepped(now, -time.Hour), 5 * µs, -time.Hour},
		{"nothing without a monotonic reading", now.Round(0), 5 * µs, 0},
		{"nothing for the noise of two readings", stepped(now, 4*µs), 5 * µs, 0},
		{"noise that puts the child before its parent", stepped(now, 6*µs), 5 * µs, 6 * µs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			child := now.Add(tt.child)
			got := shift(tt.parent, child)
			if got != tt.want {
				t.Errorf("shift is %v, want %v", got, tt.want)
			}
			if child.Add(got).UnixNano() < tt.parent.UnixNano() && !tt.parent.IsZero() {
				t.Error("the child is before its parent")
			}
		})
	}
}

// The wall clock is an hour ahead of where it was when the connections were made, as the parent saw it.
func TestSpansKeepOrderAndDurationWhenTheWallClockWasStepped(t *testing.T) {
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	p := profiler.Profiler{Sinks: []profiler.Sink{New(tp)}}
	var noCaller context.Context
	begin := evenNow()
	ctx, span := tp.Tracer("program").Start(context.Background(), "GET /", trace.WithTimestamp(stepped(begin, time.Hour)))
	marked := profiler.Asked(ctx)
	time.Sleep(2 * time.Millisecond)

	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306"}, profiler.RolePool)
	at := profiler.Now().Add(time.Second)
	c.Cut(profiler.TLS, at)
	c.Ready(noCaller)
	o := c.Begin(marked, profiler.OpQuery, at.Add(time.Second))
	o.End(marked, at.Add(3*time.Second), nil)
	span.End()

	durations := map[string]time.Duration{
		"query db:3306": 2 * time.Second, "tls": c.Create().Duration, "connection_setup db:3306": c.Create().Duration,
		"wait_for_connection": 0, "GET /": 0, // any
	}
	for _, s := range rec.Ended() {
		want, ok := durations[s.Name()]
		if got := s.EndTime().UnixNano() - s.StartTime().UnixNano(); !ok || want > 0 && got != int64(want) {
			t.Errorf("%s took %v, want %v", s.Name(), time.Duration(got), want)
		}
		if after := s.StartTime().UnixNano() - begin.Add(time.Hour).UnixNano(); after < 0 || after > int64(time.Minute) {
			t.Errorf("%s starts %v after its trace", s.Name(), time.Duration(after))
		}
		delete(durations, s.Name())
	}
	if len(durations) > 0 {
		t.Errorf("no span for %v", durations)
	}
}

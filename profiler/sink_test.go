package profiler

import (
	"context"
	"io"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// sinkFunc is a Sink made of a function.
type sinkFunc func(context.Context, Event)

func (f sinkFunc) Record(ctx context.Context, e Event) { f(ctx, e) }

func TestWithSinkReportsTheseOperationsOnly(t *testing.T) {
	var all, outer, inner recorder
	_, c := ready(&all)
	ctx := context.Background()
	out := WithSink(ctx, &outer)
	in := WithSink(out, &inner)
	for _, ctx := range []context.Context{ctx, out, Asked(out), in, Asked(in)} {
		op(ctx, c, OpExec, 0, 0, nil)
	}
	for name, tt := range map[string]struct {
		r    *recorder
		want int
	}{"the Profiler's": {&all, 5}, "the outer": {&outer, 4}, "the inner": {&inner, 2}} {
		if got := tt.r.count(KindOperation); got != tt.want || tt.r.count(KindFirstResponse) != tt.want {
			t.Errorf("%s Sink got %d operations, want %d", name, got, tt.want)
		}
	}
}

func TestWithSinkSeesTheCreatesItsRequestCauses(t *testing.T) {
	var r recorder
	var p Profiler
	ctx := WithSink(context.Background(), &r)
	p.NewConn(orders, RolePool).Ready(ctx)
	p.NewConn(orders, RolePool).Fail(ctx, io.EOF)
	p.NewConn(orders, RolePool).Ready(noContext)
	if got := r.kinds(); !slices.Equal(got, []Kind{KindCreate, KindCreate}) {
		t.Errorf("got %v", got)
	}
}

func TestAMarkIsTakenOnce(t *testing.T) {
	ctx := Asked(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 8 {
		wg.Go(func() {
			if markOf(ctx).take().Known() {
				mu.Lock()
				taken++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if taken != 1 {
		t.Errorf("taken %d times", taken)
	}
	markOf(ctx).giveBack(5)
	markOf(ctx).giveBack(7) // there is one already
	if got := markOf(ctx).take(); got != 5 {
		t.Errorf("given back 5, took %d", got)
	}
	if markOf(noContext).take().Known() {
		t.Error("no context has a mark")
	}
}

func TestAPanickingSinkIsCountedAndDisturbsNobody(t *testing.T) {
	var before, after, inner recorder
	bad := sinkFunc(func(context.Context, Event) { panic("sink") })
	p, c := ready(&before, bad, &after)
	ctx := WithSink(WithSink(context.Background(), bad), &inner)
	op(ctx, c, OpExec, 0, 0, nil)
	c.Closed(CloseError, nil)
	p.Flush()
	want := []Kind{KindCreate, KindFirstResponse, KindOperation, KindClose}
	if !slices.Equal(before.kinds(), want) || !slices.Equal(after.kinds(), want) || !slices.Equal(inner.kinds(), want[1:3]) {
		t.Errorf("the others got %v, %v, %v", before.kinds(), after.kinds(), inner.kinds())
	}
	if n := p.Report().SinkPanics; n != 6 {
		t.Errorf("%d panics counted, want 6", n)
	}
}

// frail panics when it is asked.
type frail struct{ recorder }

func (*frail) Wants(context.Context, Kind, *Conn, uint64) bool { panic("decliner") }

func TestADeclinerThatPanicsIsNotToldAndDisturbsNobody(t *testing.T) {
	var before, after choosy
	var bad, worse frail
	var all recorder
	p, c := ready(&before, &bad, &worse, &after, &all)
	op(context.Background(), c, OpExec, 0, 0, nil) // the first: choosy wants it
	op(context.Background(), c, OpExec, 0, 0, nil)
	first := []Kind{KindCreate, KindFirstResponse, KindOperation}
	if !slices.Equal(before.kinds(), first) || !slices.Equal(after.kinds(), first) {
		t.Errorf("those who declined the second got %v, %v", before.kinds(), after.kinds())
	}
	if want := append(first, first[1:]...); !slices.Equal(all.kinds(), want) {
		t.Errorf("who declines nothing got %v", all.kinds())
	}
	if want := first[:1]; !slices.Equal(bad.kinds(), want) || !slices.Equal(worse.kinds(), want) {
		t.Errorf("those who panic got %v, %v", bad.kinds(), worse.kinds())
	}
	if n := p.Report().SinkPanics; n != 8 {
		t.Errorf("%d panics counted, want 8", n)
	}
}

func TestANilSinkPanicsAtOnce(t *testing.T) {
	for name, f := range map[string]func(){
		"WithSink":  func() { WithSink(context.Background(), nil) },
		"Async":     func() { Async(nil, 1) },
		"WatchPool": func() { new(Profiler).WatchPool("", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes nil", name)
				}
			}()
			f()
		}()
	}
}

func TestASinkGetsTheHostsContextAndItsPointers(t *testing.T) {
	type key struct{}
	var value any
	p, c := ready(sinkFunc(func(ctx context.Context, e Event) {
		if e.Kind == KindOperation {
			value = ctx.Value(key{})
		}
	}))
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, 7))
	cancel()
	if op(ctx, c, OpExec, 0, 0, nil); value != 7 {
		t.Errorf("got %v", value)
	}
	op(noContext, c, OpExec, 0, 0, nil) // a driver without contexts
	if n := p.Report().SinkPanics; n != 0 {
		t.Errorf("a nil context reaches sinks: %d panics", n)
	}
}

func TestClosesAreReportedLaterAndOnce(t *testing.T) {
	var r recorder
	p, c := ready(&r)
	_, other := p, p.NewConn(orders, RolePool)
	c.Closed(CloseIdleTime, nil)
	if r.count(KindClose) != 0 {
		t.Fatal("a close is reported inside the pool's callback")
	}
	other.Ready(noContext) // an event outside of it
	if got := r.kinds(); !slices.Equal(got, []Kind{KindCreate, KindClose, KindCreate}) {
		t.Errorf("got %v", got)
	}
	other.Closed(CloseIdleTime, nil)
	p.Report()
	p.Flush()
	if r.count(KindClose) != 2 {
		t.Errorf("%d closes reported, want 2", r.count(KindClose))
	}
}

func TestPendingClosesAreBoundedAndCounted(t *testing.T) {
	var r recorder
	p := &Profiler{Sinks: []Sink{&r}}
	var cs []*Conn
	for range maxPendingCloses + 3 {
		c := p.NewConn(orders, RolePool)
		c.Ready(noContext)
		cs = append(cs, c)
	}
	for _, c := range cs {
		c.Closed(CloseError, nil)
	}
	if got := p.Report().Dropped.Closes; got != 3 || r.count(KindClose) != maxPendingCloses {
		t.Errorf("%d dropped, %d reported", got, r.count(KindClose))
	}
}

func TestAsyncIsBoundedDropsAndStops(t *testing.T) {
	var got recorder
	entered, release := make(chan bool), make(chan bool)
	a, stop := Async(sinkFunc(func(ctx context.Context, e Event) {
		if ctx.Err() != nil {
			t.Error("a canceled context reaches the Sink")
		}
		entered <- true
		<-release
		got.Record(ctx, e)
	}), 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a.Record(ctx, Event{Kind: KindCreate})
	<-entered // one is being delivered, two fit, two don't
	for _, k := range []Kind{KindFirstResponse, KindOperation, KindClose, KindClose} {
		a.Record(ctx, Event{Kind: k})
	}
	if a.Dropped() != 2 {
		t.Errorf("%d dropped, want 2", a.Dropped())
	}
	go func() {
		release <- true
		for range 2 {
			<-entered
			release <- true
		}
	}()
	stop()
	stop()
	if !reflect.DeepEqual(got.kinds(), []Kind{KindCreate, KindFirstResponse, KindOperation}) {
		t.Errorf("delivered %v", got.kinds())
	}
	if a.Record(ctx, Event{}); a.Dropped() != 3 {
		t.Errorf("what comes after stop is not counted: %d", a.Dropped())
	}
}

func TestAsyncSurvivesItsSink(t *testing.T) {
	var got recorder
	n := 0
	a, stop := Async(sinkFunc(func(ctx context.Context, e Event) {
		if n++; n == 1 {
			panic("sink")
		}
		got.Record(ctx, e)
	}), 0)
	for a.Record(context.Background(), Event{Kind: KindCreate}); a.Panics() == 0; {
	}
	a.Record(context.Background(), Event{Kind: KindClose})
	stop()
	if a.Panics() != 1 || !slices.Equal(got.kinds(), []Kind{KindClose}) {
		t.Errorf("%d panics, delivered %v", a.Panics(), got.kinds())
	}
}

func TestAsyncMayBeRecordedToWhileItStops(t *testing.T) {
	var got recorder
	a, stop := Async(&got, 4)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				a.Record(context.Background(), Event{Kind: KindOperation})
			}
		})
	}
	stop()
	wg.Wait()
	if n := int64(got.count(KindOperation)) + a.Dropped(); n != 2000 {
		t.Errorf("%d delivered or dropped, want 2000", n)
	}
}

// choosy wants only first operations.
type choosy struct{ recorder }

func (*choosy) Wants(_ context.Context, _ Kind, _ *Conn, n uint64) bool { return n == 1 }

func TestASinkMayDeclineOperations(t *testing.T) {
	var all recorder
	var some choosy
	var own recorder
	_, c := ready(&some, &all)
	ctx := WithSink(context.Background(), &own)
	op(ctx, c, OpQuery, 0, 0, nil)
	op(ctx, c, OpQuery, 0, 0, nil)
	if some.count(KindOperation) != 1 || some.count(KindFirstResponse) != 1 || some.count(KindCreate) != 1 ||
		all.count(KindOperation) != 2 || own.count(KindOperation) != 2 {
		t.Errorf("%v, %v, %v", some.kinds(), all.kinds(), own.kinds())
	}
}

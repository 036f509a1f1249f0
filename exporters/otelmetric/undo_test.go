package otelmetric_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"weak"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

func TestUndoMayBeCalledTwiceAndAfterTheReadersEnd(t *testing.T) {
	for name, end := range map[string]func(*sdkmetric.MeterProvider) error{
		"reader lives":       func(*sdkmetric.MeterProvider) error { return nil },
		"provider shut down": func(mp *sdkmetric.MeterProvider) error { return mp.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			var p profiler.Profiler
			m := otelmetric.New(&p)
			m.WithoutConnections = true
			mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(&keep{t: t}, sdkmetric.WithProducer(m))))
			stop := register(t, &p, mp)
			p.NewConn(shop, profiler.RolePool).Ready(noCaller)
			if err := end(mp); err != nil {
				t.Fatal(err)
			}
			p.NewConn(shop, profiler.RolePool).Ready(noCaller) // the SDK's instruments take it or leave it
			for range 2 {
				m.Stop()
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
			p.NewConn(shop, profiler.RolePool).Ready(noCaller)
			if got := produce(t, m); len(got) > 0 {
				t.Errorf("a Producer that was stopped tells %v", got)
			}
			if n := p.Report().SinkPanics; n > 0 {
				t.Errorf("%d panics", n)
			}
			if err := mp.Shutdown(context.Background()); err != nil && name == "reader lives" {
				t.Error(err)
			}
		})
	}
}

// Once undo has returned, what its reader collects stays the same, however much is going on.
func TestUndoAmidQueriesCreatesAndCollections(t *testing.T) {
	defer goleak.VerifyNone(t)
	var p profiler.Profiler
	m := otelmetric.New(&p)
	m.WithoutConnections = true
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(m))
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	done := make(chan struct{})
	var busy sync.WaitGroup
	defer func() {
		close(done)
		busy.Wait()
		if err := mp.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for range 32 {
		busy.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c := p.NewConn(shop, profiler.RolePool)
				c.Ready(noCaller)
				query(context.Background(), c, 0, nil)
				c.Closed(profiler.CloseIdleTime, nil)
			}
		})
	}
	busy.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				collect(t, reader)
			}
		}
	})
	for range 12 {
		stop := register(t, &p, mp)
		for told := uint64(0); told == 0; { // the callers are at it
			told, _ = creates(t, reader)
		}
		var stops sync.WaitGroup
		for range 2 {
			stops.Go(func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		}
		stops.Wait()
		before, told := creates(t, reader)
		for n := p.Report().Endpoints[0].Created; p.Report().Endpoints[0].Created <= n; { // the callers still are
		}
		after, still := creates(t, reader)
		if told || still || after != before {
			t.Fatalf("after stop: dials told %v, %v, creates %d, later %d", told, still, before, after)
		}
	}
	m.Stop()
	if got := produce(t, m); len(got) > 0 {
		t.Errorf("a Producer that was stopped tells of %d metrics", len(got))
	}
	if n := p.Report().SinkPanics; n > 0 {
		t.Errorf("%d panics", n)
	}
}

// creates is how many creates reader has been told of, and whether it is still told of connections at all.
func creates(t *testing.T, reader sdkmetric.Reader) (n uint64, told bool) {
	t.Helper()
	all := collect(t, reader)
	_, told = all["connprof.connection.dials"]
	return counted(all["db.client.connection.create_time"]), told
}

// The API hands on to the first global MeterProvider that is set, once in a process: so this one has its own.
func TestTheGlobalProviderMayBeSetAfterRegister(t *testing.T) {
	const alone = "OTELMETRIC_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var p profiler.Profiler
	stop, err := otelmetric.Register(&p, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	all := collect(t, reader)
	if dialed, timed := counted(all["connprof.connection.dials"]), counted(all["db.client.connection.create_time"]); dialed != 2 || timed != 1 {
		t.Errorf("%d dials of 2, %d durations of the 1 that came later", dialed, timed)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	if n, told := creates(t, reader); n != 1 || told {
		t.Errorf("after stop: %d creates, dials told %v", n, told)
	}
}

func TestASecondRegisterWithTheSameProviderDoublesNothing(t *testing.T) {
	var p profiler.Profiler
	reader := sdkmetric.NewManualReader()
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	first := register(t, &p, mp)
	second, err := otelmetric.Register(&p, mp)
	if err == nil {
		t.Error("no error")
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	tells := func(when string, want uint64) {
		t.Helper()
		all := collect(t, reader)
		if dialed, timed := counted(all["connprof.connection.dials"]), counted(all["db.client.connection.create_time"]); dialed != want || timed != want {
			t.Errorf("%s: %d dials, %d durations, want %d", when, dialed, timed, want)
		}
	}
	tells("registered twice", 1)
	if err := second(); err != nil {
		t.Error(err)
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	tells("the refused one stopped", 2)
	if err := first(); err != nil {
		t.Error(err)
	}
	again := register(t, &p, mp)
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	if n := counted(collect(t, reader)["connprof.connection.dials"]); n != 3 {
		t.Errorf("registered again: %d dials, want 3", n)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

func TestProfilersAndProvidersMayBeShared(t *testing.T) {
	var p, q profiler.Profiler
	one, two := sdkmetric.NewManualReader(), sdkmetric.NewManualReader()
	mp1, mp2 := sdkmetric.NewMeterProvider(sdkmetric.WithReader(one)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(two))
	stopP1, stopP2, stopQ1 := register(t, &p, mp1), register(t, &p, mp2), register(t, &q, mp1)
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	q.NewConn(shop, profiler.RolePool).Ready(noCaller)
	tells := func(when string, r sdkmetric.Reader, want uint64) {
		t.Helper()
		if n := counted(collect(t, r)["connprof.connection.dials"]); n != want {
			t.Errorf("%s: %d dials, want %d", when, n, want)
		}
	}
	tells("two Profilers of one provider add up", one, 2)
	tells("a Profiler's second provider", two, 1)
	for _, stop := range []func() error{stopQ1, stopP1} {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	tells("its first was stopped", two, 1)
	if n, told := creates(t, one); told || n != 2 {
		t.Errorf("after both stops: %d creates, dials told %v", n, told)
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	tells("and goes on", two, 2)
	if err := stopP2(); err != nil {
		t.Error(err)
	}
}

// A provider that makes no instruments at all, and says so.
type barren struct{ noop.MeterProvider }

type barrenMeter struct{ noop.Meter }

func (barren) Meter(string, ...metric.MeterOption) metric.Meter { return barrenMeter{} }

func (barrenMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errBarren
}

func (barrenMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errBarren
}

func (barrenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errBarren
}

var errBarren = context.DeadlineExceeded

func TestAProviderWithoutInstrumentsIsAnErrorAndNoPanic(t *testing.T) {
	var p profiler.Profiler
	stop, err := otelmetric.Register(&p, barren{})
	if err == nil {
		t.Error("no error")
	}
	p.NewConn(shop, profiler.RolePool).Ready(noCaller)
	if n := p.Report().SinkPanics; n > 0 {
		t.Errorf("%d panics", n)
	}
	for range 2 {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestAProducerOfNoProfilerOrOneThatIsOff(t *testing.T) {
	none := otelmetric.New(nil)
	if got := produce(t, none); len(got) > 0 {
		t.Errorf("%v of nothing", got)
	}
	none.Stop()
	if got := produce(t, new(otelmetric.Producer)); len(got) > 0 {
		t.Errorf("%v of a zero Producer", got)
	}
	var p profiler.Profiler
	c := p.NewConn(shop, profiler.RolePool)
	c.Ready(noCaller)
	p.Disable()
	for _, temporality := range []metricdata.Temporality{metricdata.CumulativeTemporality, metricdata.DeltaTemporality} {
		m := otelmetric.New(&p)
		m.Temporality = temporality
		if n := counted(produce(t, m)["connprof.connection.dials"]); n != 1 {
			t.Errorf("%v: %d dials before it was switched off", temporality, n)
		}
		p.NewConn(shop, profiler.RolePool).Ready(noCaller)
		query(context.Background(), c, 0, nil)
		if n := counted(produce(t, m)["connprof.query.duration"]); n != 0 {
			t.Errorf("%v: %d queries of a Profiler that is off", temporality, n)
		}
	}
}

func TestARegistrationThatIsNotUndoneKeepsNothingAlive(t *testing.T) {
	of := func() weak.Pointer[profiler.Profiler] {
		p := new(profiler.Profiler)
		register(t, p, sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())))
		p.NewConn(shop, profiler.RolePool).Ready(noCaller)
		return weak.Make(p)
	}()
	for range 20 {
		if runtime.GC(); of.Value() == nil {
			return
		}
	}
	t.Error("the Profiler is still there")
}

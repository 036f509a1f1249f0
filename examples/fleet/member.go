package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/examples/internal/wan"
	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/profiler"
)

// An assignment is what a member reads from its standard input.
type assignment struct {
	Server  string // of MySQL
	RootPEM []byte // what to trust of it
	OTLP    string // of the Collector
}

// exact is what a member writes to its standard output: the tls phase of each connection that it made, in no order.
type exact struct {
	TLS []time.Duration
}

// runMembers starts all members at once and returns what they tell, in the order of fleet.
func runMembers(ctx context.Context, a assignment) ([]exact, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	input, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	told, errs := make([]exact, len(fleet)), make([]error, len(fleet))
	var all sync.WaitGroup
	for i, m := range fleet {
		all.Go(func() {
			var out, log bytes.Buffer
			cmd := exec.CommandContext(ctx, self, "-member", m.name)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &log
			err := cmd.Run()
			if err == nil {
				err = json.Unmarshal(out.Bytes(), &told[i])
			}
			if err != nil {
				errs[i] = fmt.Errorf("fleet: process %s: %w\n%s", m.name, err, log.Bytes())
			}
		})
	}
	all.Wait()
	return told, errors.Join(errs...)
}

// keeper is a profiler.Sink that keeps the exact durations.
type keeper struct {
	mu  sync.Mutex
	all exact // mu
}

func (k *keeper) Record(_ context.Context, e profiler.Event) {
	if e.Kind != profiler.KindCreate || e.Conn.Role() != profiler.RolePool {
		return
	}
	if c := e.Conn.Create(); c.Outcome == profiler.OK && c.Phases[profiler.TLS].Present {
		k.mu.Lock()
		k.all.TLS = append(k.all.TLS, c.Phases[profiler.TLS].Duration)
		k.mu.Unlock()
	}
}

// beMember is the whole of a member's process. It returns when the Collector has taken all metrics.
func beMember(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	i := slices.IndexFunc(fleet, func(m member) bool { return m.name == name })
	if i < 0 {
		return fmt.Errorf("fleet: %q is no process of the fleet", name)
	}
	m := fleet[i]
	var a assignment
	if err := json.NewDecoder(in).Decode(&a); err != nil {
		return fmt.Errorf("fleet: read the assignment: %w", err)
	}

	var k keeper
	p := &profiler.Profiler{Sinks: []profiler.Sink{&k}}
	provider, err := meter(ctx, p, m, a.OTLP)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if err := errors.Join(m.work(ctx, p, a, provider.ForceFlush), provider.Shutdown(ctx), handled.all()); err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return json.NewEncoder(out).Encode(k.all)
}

// meter is all that a program sets up for connprof's metrics.
func meter(ctx context.Context, p *profiler.Profiler, m member, otlp string) (*sdkmetric.MeterProvider, error) {
	otel.SetErrorHandler(&handled) // this program wants each point taken: the Collector's partial successes are failures
	exporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(otlp), otlpmetricgrpc.WithInsecure(),
		otlpmetricgrpc.WithTimeout(30*time.Second))
	if err != nil {
		return nil, err
	}
	metrics := otelmetric.New(p)
	metrics.MaxSize = 320 // exponential buckets of scale 4 over 20 octaves: each 4.4 % wide, so that its middle is at most 2.2 % off
	if m.delta {
		metrics.Temporality = metricdata.DeltaTemporality
	}
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(metrics), sdkmetric.WithTimeout(time.Minute),
		sdkmetric.WithInterval(time.Hour)) // work says when: a Shutdown cancels an export that is on its way, whose deltas may be lost
	options := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "shop"), attribute.String("service.instance.id", m.name)))}
	if !m.instruments {
		return sdkmetric.NewMeterProvider(options...), nil
	}
	metrics.WithoutConnections = true
	provider := sdkmetric.NewMeterProvider(append(options, sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 320, MaxScale: 20}})))...)
	_, err = otelmetric.Register(p, provider)
	return provider, err
}

var handled errorsHandled

// errorsHandled keeps what the SDK can tell only its global handler.
type errorsHandled struct {
	mu   sync.Mutex
	errs []error // mu
}

func (h *errorsHandled) Handle(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *errorsHandled) all() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.errs...)
}

const (
	concurrency = 3
	exports     = 4 // of the metrics of a member
)

// work makes m's connections, a query on each, through a network of its own. It has the metrics sent in several pieces, so that there is
// something to add up, and deltas leave out some time.
func (m member) work(ctx context.Context, p *profiler.Profiler, a assignment, flush func(context.Context) error) error {
	link, err := wan.New(m.rtt)
	if err != nil {
		return err
	}
	defer link.Close()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.RootPEM) {
		return errors.New("no certificate to trust")
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.User, cfg.Passwd, cfg.DBName = "tcp", embedded.NativeUser, embedded.SQLPassword, embedded.Database
	if cfg.Addr, err = link.Forward(a.Server); err != nil {
		return err
	}
	cfg.DialFunc = link.DialContext
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	db, err := mysqlprof.OpenConfig(p, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxIdleConns(-1) // each query on a connection of its own: this fleet exists to make them
	query := func() error {
		var n int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&n)
	}
	for i := range exports {
		if err := times(m.connections*(i+1)/exports-m.connections*i/exports, query); err != nil {
			return err
		}
		for range 2 { // the second time is an interval in which nothing happened, and of which nothing is sent
			if err := flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// times calls f n times, some of them at once, and stops early at errors.
func times(n int, f func() error) error {
	var (
		mu    sync.Mutex
		first error // mu
	)
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		n--
		return n >= 0 && first == nil
	}
	var all sync.WaitGroup
	for range concurrency {
		all.Go(func() {
			for next() {
				if err := f(); err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

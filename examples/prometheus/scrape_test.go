package prometheus

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/otelmetric"
	"github.com/connprof/connprof/profiler"
)

const ms = time.Millisecond

// serve exposes m's metrics as a program would, and returns the address to scrape.
func serve(t *testing.T, m *otelmetric.Producer, views ...sdkmetric.View) string {
	url, _ := serveWith(t, m, views...)
	return url
}

func serveWith(t *testing.T, m *otelmetric.Producer, views ...sdkmetric.View) (url string, provider *sdkmetric.MeterProvider) {
	t.Helper()
	registry := prom.NewRegistry()
	reader, err := prometheus.New(prometheus.WithRegisterer(registry), prometheus.WithProducer(m))
	if err != nil {
		t.Fatal(err)
	}
	provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(views...))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	t.Cleanup(func() {
		server.Close()
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server.URL, provider
}

// scrape gets the exposition in the first format that accept names.
func scrape(t *testing.T, url, accept string) (body io.Reader, format expfmt.Format) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, all)
	}
	return strings.NewReader(string(all)), expfmt.ResponseFormat(resp.Header)
}

// queried runs a query for each duration on one connection, the first of them under a sampled span.
func queried(p *profiler.Profiler, ds ...time.Duration) {
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd}, TraceFlags: trace.FlagsSampled,
	}))
	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306"}, profiler.RolePool)
	at := profiler.Now()
	c.Cut(profiler.TLS, at)
	c.Ready(ctx)
	for _, d := range ds {
		at = profiler.Now()
		o := c.Begin(ctx, profiler.OpExec, at.Add(-d))
		o.End(ctx, at, nil)
		ctx = context.Background()
	}
}

func TestExplicitBucketsAndExemplarsInOpenMetrics(t *testing.T) {
	var x otelmetric.Exemplars
	p := profiler.Profiler{Sinks: []profiler.Sink{&x}}
	m := otelmetric.New(&p)
	m.Exemplars = &x
	url := serve(t, m)
	queried(&p, 7*ms, 1*ms, 6*ms, 60*ms)
	body, _ := scrape(t, url, "application/openmetrics-text;version=1.0.0;escaping=underscores")
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "connprof_query_duration_seconds_bucket{") {
			lines = append(lines, line)
		}
	}
	got := strings.Join(lines, "")
	for _, want := range []string{`le="0.001"} `, `le="0.01"} `, `le="+Inf"} 1`, `le="+Inf"} 3`, `connprof_connection_reused="true"`,
		`db_system_name="mysql"`, `span_id="cd00000000000000"`, `trace_id="ab000000000000000000000000000000"`, `"} 0.007 `} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not there:\n%s", want, got)
		}
	}
	for _, name := range []string{"connprof_connection_dials_total{", "connprof_connection_phase_duration_seconds_count{",
		"db_client_connection_create_time_seconds_count{", "connprof_dropped_total{",
		`db_client_operation_duration_seconds_bucket{db_system_name="mysql",`, "connprof_query_duration_seconds_count{"} {
		if !strings.Contains(string(text), name) {
			t.Errorf("%s is not there", name)
		}
	}
}

func TestExponentialBucketsAreNativeHistogramsInProtobuf(t *testing.T) {
	var p profiler.Profiler
	m := otelmetric.New(&p)
	m.MaxSize = 320
	url := serve(t, m)
	ds := []time.Duration{9 * ms, 0}
	for i := range 500 {
		ds = append(ds, time.Duration(i)*100*time.Microsecond)
	}
	queried(&p, ds...)
	body, format := scrape(t, url, string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	if format.FormatType() != expfmt.TypeProtoDelim {
		t.Fatalf("format %q", format)
	}
	h := histogram(t, expfmt.NewDecoder(body, format), "connprof_query_duration_seconds", "true")
	want := p.Report().Endpoint("db:3306", profiler.RolePool).Distribution(profiler.MeasureReusedQuery, profiler.OK)
	zero, offset, counts := want.Buckets()
	if h.GetSchema() != profiler.BucketScale || h.GetZeroCount() != zero || h.GetZeroThreshold() != profiler.BucketZero ||
		h.GetSampleCount() != want.Count || h.GetSampleSum() != want.Sum.Seconds() {
		t.Errorf("schema %d zero %d to %g count %d sum %g, want %+v with zero %d", h.GetSchema(), h.GetZeroCount(), h.GetZeroThreshold(),
			h.GetSampleCount(), h.GetSampleSum(), want.Count, zero)
	}
	got := nativeBuckets(h)
	for i, n := range counts {
		index := offset + i + 1 // Prometheus numbers a bucket by its upper edge
		if got[index] != int64(n) {
			t.Errorf("bucket %d holds %d, want %d", index, got[index], n)
		}
		delete(got, index)
	}
	for index, n := range got {
		if n != 0 {
			t.Errorf("bucket %d holds %d, want none", index, n)
		}
	}
}

// Connection metrics as instruments, which a view makes native histograms.
func TestInstrumentsAndAViewAreNativeHistogramsInProtobuf(t *testing.T) {
	var p profiler.Profiler
	m := otelmetric.New(&p)
	m.WithoutConnections, m.MaxSize = true, 320
	url, provider := serveWith(t, m, sdkmetric.NewView(sdkmetric.Instrument{Name: "connprof.*", Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 320, MaxScale: 4}}))
	stop, err := otelmetric.Register(&p, provider)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	queried(&p, ms, ms)
	body, format := scrape(t, url, string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	all, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	for name, label := range map[string]string{
		"connprof_connection_phase_duration_seconds": "tls", "connprof_query_duration_seconds": "true", "db_client_operation_duration_seconds": "mysql",
	} {
		h := histogram(t, expfmt.NewDecoder(strings.NewReader(string(all)), format), name, label)
		var n int64
		for _, c := range nativeBuckets(h) {
			n += c
		}
		if h.GetSchema() != 4 || uint64(n)+h.GetZeroCount() != h.GetSampleCount() || h.GetSampleCount() == 0 {
			t.Errorf("%s: schema %d, %d of %d in buckets", name, h.GetSchema(), n, h.GetSampleCount())
		}
	}
}

// histogram finds the series of a family that has a label of that value.
func histogram(t *testing.T, d expfmt.Decoder, name, value string) *dto.Histogram {
	t.Helper()
	for {
		var f dto.MetricFamily
		if err := d.Decode(&f); err != nil {
			t.Fatalf("no %s with %s: %v", name, value, err)
		}
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetHistogram() != nil && strings.Contains(fmt.Sprint(m.GetLabel()), `"`+value+`"`) {
				return m.GetHistogram()
			}
		}
	}
}

// nativeBuckets unpacks spans and deltas.
func nativeBuckets(h *dto.Histogram) map[int]int64 {
	all := map[int]int64{}
	index, k := 0, 0
	var n int64
	for _, s := range h.GetPositiveSpan() {
		index += int(s.GetOffset())
		for range s.GetLength() {
			n += h.GetPositiveDelta()[k]
			all[index] = n
			index++
			k++
		}
	}
	return all
}

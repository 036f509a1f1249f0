package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

var lifecycle = Table{
	Columns: []Column{
		{Title: "ms"},
		{Group: "TLS off", Title: "mean"}, {Group: "TLS off", Title: "p50"}, {Group: "TLS off", Title: "p95"},
		{Group: "TLS on", Title: "mean"}, {Group: "TLS on", Title: "p50"}, {Group: "TLS on", Title: "p95"},
		{Group: "TLS adds", Title: "mean"},
		{Group: "published", Title: "off"}, {Group: "published", Title: "on"},
	},
	Rows: [][]string{
		{"build the client", "0.0370", "0.0210", "0.0551", "0.0340", "0.0240", "0.0570", "-0.0030", "3.70", "19.9"},
		{"first query", "1.25", "1.10", "2.01", "5.00", "4.89", "6.12", "+3.75", "20.7", "43.6"},
	},
}

var bars = []Bars{
	{Title: "TLS off", Bars: []Bar{
		{Part: "heartbeat", Label: "connect", Value: 80 * time.Microsecond},
		{Part: "heartbeat", Label: "hello", Value: 300 * time.Microsecond},
		{Part: "pool", Label: "connect", Value: 90 * time.Microsecond},
		{Part: "pool", Label: "hello", Value: 310 * time.Microsecond},
		{Label: "query", Value: 360 * time.Microsecond},
		{Label: "rest", Value: 60 * time.Microsecond},
	}},
	{Title: "TLS on", Bars: []Bar{
		{Part: "heartbeat", Label: "connect", Value: 80 * time.Microsecond},
		{Part: "heartbeat", Label: "tls", Value: 1852 * time.Microsecond},
		{Part: "heartbeat", Label: "hello", Value: 310 * time.Microsecond},
		{Part: "pool", Label: "connect", Value: 90 * time.Microsecond},
		{Part: "pool", Label: "tls", Value: 1857 * time.Microsecond},
		{Part: "pool", Label: "hello", Value: 320 * time.Microsecond},
		{Label: "query", Value: 350 * time.Microsecond},
		{Label: "rest", Value: -5 * time.Microsecond},
	}},
}

func page(p *Printer) {
	p.Title("connprof", "what TLS costs")
	p.Heading("MongoDB", "mongo-driver v2.10.0, embedded server")
	p.Table(lifecycle)
	p.Subheading("where the first query's time went", "mean ms, all bars on one scale")
	p.Bars(bars...)
	p.Subheading("what pooling saves", "medians")
	p.Amortisation(
		Priced{"TLS off", profiler.Amortise(880*time.Microsecond, 0, 360*time.Microsecond, 304*time.Microsecond)},
		Priced{"TLS on", profiler.Amortise(4600*time.Microsecond, 3709*time.Microsecond, 350*time.Microsecond, 314*time.Microsecond)},
		Priced{"not measured", nil},
	)
	p.Item("TLS adds 3.75 ms to the first query, of which 3.71 ms are the two handshakes: that of the heartbeat and that of the pool.")
}

func TestPageIsPlainAsWideAsAskedFor(t *testing.T) {
	golden(t, "page_100.txt", Printer{}, page)
	golden(t, "page_80.txt", Printer{Width: 80}, page)
	golden(t, "page_40.txt", Printer{Width: 10}, page)
}

func TestPageInColour(t *testing.T) { golden(t, "page_color.txt", Printer{Color: true}, page) }

func TestNoLineIsWiderThanThePage(t *testing.T) {
	for width := 52; width <= 130; width++ {
		var out bytes.Buffer
		page(&Printer{W: &out, Width: width})
		for _, line := range strings.Split(out.String(), "\n") {
			if n := columns(line); n > width {
				t.Fatalf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
}

// report is that of connections whose times are made up: a Create's phases are cut at instants of the test's own.
func report() profiler.Report {
	e := profiler.EndpointReport{
		Endpoint: profiler.Endpoint{System: "mysql", Address: "db:3306"}, Role: "pool", Created: 12, Failed: 1, Live: 2, Closed: 10,
		FailedIn: map[string]int64{"auth": 1}, ClosedBy: map[string]int64{"idle_limit": 7, "pool_closed": 3},
		Measures: []profiler.MeasureReport{
			{Measure: "tls", Outcome: "ok", Count: 12, Mean: 2e6, Min: 1e6, P50: 2e6, P95: 3e6, P99: 3e6, Max: 3e6},
			{Measure: "create", Outcome: "ok", Count: 12, Mean: 4e6, Min: 3e6, P50: 4e6, P95: 5e6, P99: 5e6, Max: 5100000},
			{Measure: "first_query", Outcome: "ok", Count: 12, Mean: 5e5, Min: 3e5, P50: 4e5, P95: 6e5, P99: 6e5, Max: 6e5},
			{Measure: "reused_query", Outcome: "ok", Count: 100, Mean: 3e5, Min: 2e5, P50: 3e5, P95: 4e5, P99: 4e5, Max: 4e5},
			{Measure: "reused_query", Outcome: "timeout", Count: 1, Mean: 1e9, Min: 1e9, P50: 1e9, P95: 1e9, P99: 1e9, Max: 1e9},
		},
		Breakdown: []profiler.PhaseShare{
			{Phase: "connect", Count: 12, Mean: 1e6}, {Phase: "greet", Count: 12, Mean: 2e5}, {Phase: "tls", Count: 12, Mean: 2e6},
			{Phase: "auth", Count: 12, Mean: 750000}, {Phase: "other", Count: 12, Mean: 50000},
		},
		TLS:          profiler.TLSReport{Handshakes: 12, Resumed: 2, Versions: map[string]int64{"TLS 1.3": 11, "TLS 1.2": 1}},
		Amortisation: profiler.Amortise(4e6, 2e6, 4e5, 3e5),
	}
	return profiler.Report{
		Endpoints: []profiler.EndpointReport{e},
		Pools:     []profiler.PoolReport{{Name: "db:3306", Opened: 1, Live: 1, PoolStats: profiler.PoolStats{Open: 2, Idle: 2, WaitCount: 3, WaitDuration: 1e6}}},
		Failures: []profiler.Failure{{
			Endpoint: e.Endpoint, Role: "pool", Phase: "auth", Outcome: "error", Class: "rejected", Duration: 3e6, Error: "Error 1045: Access denied\x1b[2J for user 'x'",
			Cause: "EOF", Advice: "check user, password, the database's name, and that the server lets this client in",
		}},
		Findings: []profiler.Finding{{
			ID: "pool_churn", Severity: "warning", Subject: "db:3306", Title: "connections are made again and again",
			Evidence: "12 connections for 113 queries", Advice: "raise MaxIdleConns",
		}},
	}
}

func TestReport(t *testing.T) {
	golden(t, "report.txt", Printer{}, func(p *Printer) { p.Report(report()) })
}

func TestReportOfARealProfilerHasItsPhases(t *testing.T) {
	var p profiler.Profiler
	c := p.NewConn(profiler.Endpoint{System: "mysql", Address: "db:3306"}, profiler.RolePool)
	c.Cut(profiler.Connect, profiler.Now())
	c.Cut(profiler.Auth, profiler.Now())
	c.Ready(context.Background())
	var out bytes.Buffer
	(&Printer{W: &out}).Report(p.Report())
	for _, want := range []string{"mysql db:3306", "connect", "auth", "create"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "tls") {
		t.Errorf("a phase that never began is shown:\n%s", &out)
	}
}

func TestNothingOfAPeerReachesTheTerminalAsAnEscape(t *testing.T) {
	var out bytes.Buffer
	(&Printer{W: &out, Width: 60}).Report(report())
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("an escape sequence in %q", out.String())
	}
}

func TestPercentHasTheDigitsItIsWorth(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.0004: "0.04 %", 0.0123: "1.2 %", 0.0996: "10 %", 0.764: "76 %", 1: "100 %"} {
		if got := Percent(share); got != want {
			t.Errorf("Percent(%v) = %q, want %q", share, got, want)
		}
	}
}

func TestNewIsPlainWhereTheWriterIsNoTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "90")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if p := New(w); p.Color || p.Width != 90 {
		t.Errorf("New(pipe) = %+v, want no colour and 90 columns", p)
	}
	if p := New(&bytes.Buffer{}); p.Color {
		t.Error("New(buffer) uses colour")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrKeepsTheFirstErrorOfTheWriter(t *testing.T) {
	p := &Printer{W: broken{}}
	page(p)
	if fmt.Sprint(p.Err()) != "full" {
		t.Errorf("Err() = %v, want full", p.Err())
	}
}

func TestBarsOfTheLongestDurations(t *testing.T) {
	const long = math.MaxInt64 / 4 * 3
	var b strings.Builder
	p := Printer{W: &b, Width: 80}
	p.Bars(Bars{Title: "all", Bars: []Bar{{Label: "tls", Value: long}, {Label: "auth", Value: long}, {Label: "setup", Value: long}, {Value: math.MinInt64}}})
	if text := b.String(); strings.Contains(text, " -") || strings.Count(text, "\n") != 5 {
		t.Error(text)
	}
}

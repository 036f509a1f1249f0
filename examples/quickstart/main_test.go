package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func measureJSON(t *testing.T, args ...string) jsonReport {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"-json"}, args...), &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, &stderr)
	}
	var report jsonReport
	decoder := json.NewDecoder(&stdout)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("stdout is not one object: %v", err)
	}
	if rest, _ := decoder.Token(); rest != nil {
		t.Fatalf("more on stdout after the object: %v", rest)
	}
	return report
}

func TestExperimentOnTheEmbeddedServers(t *testing.T) {
	const iterations = 20
	report := measureJSON(t, "-iterations", fmt.Sprint(iterations))
	if report.Iterations != iterations || report.RTT != 0 || len(report.Rows) != 4 {
		t.Fatalf("iterations %d, rtt %v, %d rows", report.Iterations, report.RTT, len(report.Rows))
	}
	totals := make(map[string]float64)
	for i, row := range report.Rows {
		t.Run(fmt.Sprintf("%s tls %v", row.System, row.TLS), func(t *testing.T) {
			if want := []string{"mysql", "mysql", "mongodb", "mongodb"}[i]; row.System != want || row.TLS != (i%2 == 1) {
				t.Errorf("row %d is %s, tls %v", i, row.System, row.TLS)
			}
			checkPhases(t, row)
			if row.Connections != iterations {
				t.Errorf("%d connections, want one a fresh client: %d", row.Connections, iterations)
			}
			if want := map[string]int64{"mysql": 0, "mongodb": iterations}[row.System]; row.MonitorConnections != want {
				t.Errorf("%d monitor connections, want %d", row.MonitorConnections, want)
			}
			if (row.Prepared != nil) != (row.System == "mysql") {
				t.Errorf("reused_prepared_query_ms: %v", row.Prepared)
			}
			for _, s := range []jsonSummary{row.Client, row.FirstQuery, row.Total, row.Reused} {
				if s.Mean <= 0 || s.P50 <= 0 || s.P95 < s.P50 {
					t.Errorf("a measure is not plausible: %+v", s)
				}
			}
			if sum := row.Client.Mean + row.FirstQuery.Mean; math.Abs(sum-row.Total.Mean) > 1e-5 {
				t.Errorf("client %v and first query %v don't sum to total %v", row.Client.Mean, row.FirstQuery.Mean, row.Total.Mean)
			}
			if row.FirstQueryPhase <= 0 || row.FirstQueryPhase+row.Phases["create"] > row.FirstQuery.Mean {
				t.Errorf("create %v and first query %v don't fit into the caller's %v",
					row.Phases["create"], row.FirstQueryPhase, row.FirstQuery.Mean)
			}
		})
		if row.TLS {
			if off := totals[row.System]; row.Total.P50 <= off {
				t.Errorf("%s: a fresh client with TLS takes %v ms, without %v", row.System, row.Total.P50, off)
			}
		}
		totals[row.System] = row.Total.P50
	}
}

// checkPhases: tls is there only where TLS is on, and the parts sum to the create.
func checkPhases(t *testing.T, row jsonRow) {
	t.Helper()
	sum := 0.0
	for name, v := range row.Phases {
		if name != "create" {
			sum += v
		}
	}
	if create := row.Phases["create"]; create <= 0 || math.Abs(sum-create) > 1e-3 {
		t.Errorf("the phases sum to %v ms, the create is %v ms", sum, create)
	}
	if tls, ok := row.Phases["tls"]; ok != row.TLS || row.TLS && tls <= 0 {
		t.Errorf("phase tls %v, present %v", tls, ok)
	}
	if want := map[bool]string{true: "TLS 1.3"}[row.TLS]; row.TLSVersion != want {
		t.Errorf("tls_version %q, want %q", row.TLSVersion, want)
	}
	for _, phase := range map[string][]string{"mysql": {"connect", "greet", "auth"}, "mongodb": {"connect", "hello"}}[row.System] {
		if row.Phases[phase] <= 0 {
			t.Errorf("phase %s is absent", phase)
		}
	}
}

func TestEmulatedNetworkIsInEveryPhase(t *testing.T) {
	const rtt = 20.0 // ms; long beside a busy machine's delays
	report := measureJSON(t, "-iterations", "3", "-rtt", "20ms")
	if report.RTT != rtt {
		t.Errorf("rtt_ms %v", report.RTT)
	}
	for _, row := range report.Rows {
		phases := map[string]float64{"connect": row.Phases["connect"], "reused query": row.Reused.P50, "first query": row.FirstQueryPhase}
		if row.TLS {
			phases["tls"] = row.Phases["tls"]
		}
		if row.System == "mysql" {
			phases["greet"], phases["auth"], phases["prepared / 2"] = row.Phases["greet"], row.Phases["auth"], row.Prepared.P50/2
		} else {
			phases["hello"] = row.Phases["hello"]
		}
		for name, v := range phases {
			if v < rtt*0.95 || v > rtt*3 { // the upper bound only tells one round trip from many
				t.Errorf("%s, tls %v: %s takes %v ms at %v ms a round trip", row.System, row.TLS, name, v, rtt)
			}
		}
	}
}

func TestReportForPeople(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-iterations", "5", "-rtt", "2ms"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, &stderr)
	}
	for _, want := range []string{
		"network is emulated", "MySQL · embedded", "MongoDB · embedded", "published", "heartbeat connection", "pool connection", "tls",
		"queries a connection", "A cold client pays TLS twice", "If 10 queries share a connection",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in the report", want)
		}
	}
	if strings.ContainsRune(stdout.String(), '\x1b') || strings.ContainsRune(stdout.String(), '\r') {
		t.Error("escape sequences in piped output")
	}
	if t.Failed() {
		t.Logf("the report:\n%s", &stdout)
	}
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps int // until the interrupt
		rows  int
	}{{"among the fresh clients", 42, 4}, {"among the reused queries", 4*30 + 10, 4}, {"at once", 0, 0}} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			setup, err := prepare(ctx, config{timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer setup.stop()
			n := 0
			e := &experiment{variants: setup.variants, iterations: 30, timeout: 5 * time.Second, begin: func(int) {
				if test.steps == 0 {
					cancel()
				}
			}}
			e.step = func() {
				if n++; n == test.steps {
					cancel()
				}
			}
			if err := e.run(ctx); err != nil {
				t.Errorf("an interrupt is told as an error: %v", err)
			}
			rows := results(e.measured())
			if len(rows) != test.rows {
				t.Fatalf("%d rows, want %d", len(rows), test.rows)
			}
			if n != test.steps {
				t.Errorf("%d steps after the interrupt", n-test.steps)
			}
			var out bytes.Buffer
			if err := writeText(&out, page{iterations: e.completed(), asked: 30, rows: rows}); err != nil {
				t.Error(err)
			}
			if test.rows > 0 && e.completed() < 10 {
				t.Errorf("completed %d iterations", e.completed())
			}
		})
	}
}

func TestInterruptHasItsExitCode(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, nil, &stdout, &stderr); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

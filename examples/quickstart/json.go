package main

import (
	"encoding/json"
	"io"
	"math"
	"time"
)

// jsonReport is what -json prints. Times are in milliseconds.
type jsonReport struct {
	Iterations int       `json:"iterations"` // of each row
	RTT        float64   `json:"rtt_ms"`     // emulated; 0 for none
	Rows       []jsonRow `json:"rows"`
}

type jsonRow struct {
	System string `json:"system"`
	Driver string `json:"driver"`
	TLS    bool   `json:"tls"`
	// The experiment's wall times: building a client, its first query with the connecting, both; then a query on a reused connection.
	Client     jsonSummary `json:"client_ms"`
	FirstQuery jsonSummary `json:"first_query_ms"`
	Total      jsonSummary `json:"total_ms"`
	Reused     jsonSummary `json:"reused_query_ms"`
	// Prepared is the same query where the driver prepares it each time: one round trip more. MySQL only.
	Prepared *jsonSummary `json:"reused_prepared_query_ms,omitempty"`
	// Phases are means over the pool connections of the fresh clients; all others sum to "create". Absent phases are left out.
	Phases map[string]float64 `json:"phases_ms"`
	// FirstQueryPhase is the first query from its start to its first response, without the connecting.
	FirstQueryPhase float64 `json:"first_query_phase_ms"`
	TLSVersion      string  `json:"tls_version"`
	// Connections and MonitorConnections count those of the fresh clients.
	Connections        int64 `json:"connections"`
	MonitorConnections int64 `json:"monitor_connections"`
}

type jsonSummary struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
}

func writeJSON(w io.Writer, iterations int, rtt time.Duration, rows []result) error {
	report := jsonReport{Iterations: iterations, RTT: milliseconds(rtt), Rows: []jsonRow{}}
	for _, r := range rows {
		row := jsonRow{
			System: r.system, Driver: r.driver, TLS: r.tls,
			Client: jsonOf(r.build), FirstQuery: jsonOf(r.first), Total: jsonOf(r.total), Reused: jsonOf(r.reused),
			Phases: make(map[string]float64), FirstQueryPhase: milliseconds(r.query), TLSVersion: r.version,
			Connections: r.pool.connections, MonitorConnections: r.monitor.connections,
		}
		if r.prepared.n > 0 {
			s := jsonOf(r.prepared)
			row.Prepared = &s
		}
		if n := float64(r.pool.connections); n > 0 {
			for _, p := range r.pool.parts {
				row.Phases[p.phase.String()] = toNanosecond(float64(p.sum) / n)
			}
			row.Phases["create"] = toNanosecond(float64(r.pool.sum) / n)
		}
		report.Rows = append(report.Rows, row)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func jsonOf(s summary) jsonSummary {
	return jsonSummary{Mean: milliseconds(s.mean), P50: milliseconds(s.p50), P95: milliseconds(s.p95)}
}

func milliseconds(d time.Duration) float64 { return toNanosecond(float64(d)) }

// toNanosecond turns nanoseconds into milliseconds with six decimals.
func toNanosecond(ns float64) float64 { return math.Round(ns) / 1e6 }

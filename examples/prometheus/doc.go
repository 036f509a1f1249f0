// Package prometheus shows a Profiler's metrics as Prometheus scrapes them, through OpenTelemetry's exporter: explicit buckets in text, and
// exponential ones as native histograms, which only the protobuf format carries. Its tests are the example.
package prometheus

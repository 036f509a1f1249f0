//go:build race

package otelmetric_test

const raceEnabled = true

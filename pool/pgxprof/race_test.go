//go:build race

package pgxprof

const raceEnabled = true

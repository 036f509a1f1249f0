//go:build !race

package profiler

// raceEnabled says that the race detector is on, whose own memory and time tests of bounds must not measure.
const raceEnabled = false

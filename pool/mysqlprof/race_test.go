//go:build race

package mysqlprof

const raceEnabled = true

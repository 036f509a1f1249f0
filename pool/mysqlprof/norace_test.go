//go:build !race

package mysqlprof

const raceEnabled = false

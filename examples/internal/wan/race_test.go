//go:build race

package wan_test

const raceEnabled = true

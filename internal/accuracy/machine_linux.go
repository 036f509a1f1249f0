package accuracy

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A machine is how busy this one has been.
type machine struct {
	load       string // the load average over a minute
	busy, idle uint64 // ticks of all processors since boot
}

// readMachine reads /proc; what can't be read stays zero.
func readMachine() (m machine) {
	load, _ := os.ReadFile("/proc/loadavg")
	m.load, _, _ = strings.Cut(string(load), " ")
	stat, _ := os.ReadFile("/proc/stat")
	all, _, _ := strings.Cut(string(stat), "\n")
	for i, f := range strings.Fields(all) {
		n, err := strconv.ParseUint(f, 10, 64)
		switch {
		case err != nil: // the name of the line
		case i == 4 || i == 5: // idle, iowait (proc(5))
			m.idle += n
		case i < 9: // up to steal; what follows is counted already
			m.busy += n
		}
	}
	return m
}

// since tells of the time from earlier to m. What measures is part of it: through the emulated network a few percent, on loopback half.
func (m machine) since(earlier machine) string {
	busy, idle := m.busy-earlier.busy, m.idle-earlier.idle
	return fmt.Sprintf("load %s before, processors %d %% busy", earlier.load, 100*busy/max(1, busy+idle))
}

package profiler

import "testing"

func TestReportTextIsAsInTheGoldenFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		scripted(&p)
		golden(t, "report.txt", p.Report().String())
	})
}

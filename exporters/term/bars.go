package term

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/connprof/connprof/profiler"
)

// Bar is one stretch of time, such as a phase.
type Bar struct {
	// Part is what the stretch belongs to, shown once for neighbours that have the same. One without a part begins further left.
	Part string
	// Label names the stretch. The names of profiler.Phase have colours of their own.
	Label string
	// Value is its length; a negative one counts as 0.
	Value time.Duration
}

// Bars are stretches that follow one another, such as all phases of a create.
type Bars struct {
	// Title names them; "" leaves the title line out.
	Title string
	Bars  []Bar
}

// total is the sum of all.
func (b Bars) total() time.Duration {
	var sum time.Duration
	for _, bar := range b.Bars {
		sum = plus(sum, max(0, bar.Value))
	}
	return sum
}

// plus is a and b together, or the longest Duration.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Bars prints a line for each stretch: its name, length in milliseconds, share of the group, and a bar that begins where the one before
// it ended. All groups have one time scale, so that their lengths can be compared.
func (p *Printer) Bars(groups ...Bars) {
	part, label, longest := 0, 0, time.Duration(0)
	for _, g := range groups {
		longest = max(longest, g.total())
		for _, b := range g.Bars {
			part, label = max(part, columns(b.Part)), max(label, columns(b.Label))
		}
	}
	if part > 0 {
		part += 2
	}
	for _, g := range groups {
		label = max(label, columns(g.Title)-part)
	}
	const figures = 8 + 2 + 5 + 2 // value, gap, share, gap
	room := max(8, p.width()-2-part-label-2-figures)
	for i, g := range groups {
		if g.Title != "" {
			if i > 0 {
				p.line()
			}
			p.line("  ", padRight(g.Title, part+label), "  ", p.paint(bold, padLeft(millis(g.total()), 8)))
		}
		var at time.Duration
		last := ""
		for _, b := range g.Bars {
			value := max(0, b.Value)
			name := padRight(b.Label, part+label)
			if b.Part != "" {
				first := b.Part
				if first == last {
					first = ""
				}
				name = p.paint(faint, padRight(first, part)) + padRight(b.Label, label)
			}
			last = b.Part
			p.line("  ", name, "  ", padLeft(millis(value), 8), "  ",
				p.paint(faint, padLeft(percent(value, g.total()), 5)), "  ", p.bar(b.Label, at, value, longest, room))
			at = plus(at, value)
		}
	}
}

// bar draws from at, length long, where all is room columns wide. A stretch of any length shows at least as a thin line.
func (p *Printer) bar(label string, at, length, all time.Duration, room int) string {
	if all <= 0 || length <= 0 {
		return ""
	}
	scale := float64(room) / float64(all)
	from := min(int(float64(at)*scale), room-1)
	// Only the right edge can be drawn in eighths, so the left one begins at a whole column.
	eighths := int(math.Round((float64(plus(at, length))*scale - float64(from)) * 8))
	eighths = min(max(eighths, 1), (room-from)*8)
	return strings.Repeat(" ", from) + p.paint(phaseStyle(label), blocks(eighths))
}

// blocks is a bar of n eighths of a column.
func blocks(n int) string {
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[n%8-1])
	}
	return s
}

// phaseStyle gives what waits for the network alone one family of colours, and TLS its own.
func phaseStyle(label string) style {
	switch label {
	case profiler.TLS.String(), profiler.Verify.String():
		return yellow
	case profiler.Resolve.String(), profiler.Connect.String():
		return blue
	case profiler.Attempts.String():
		return red
	case profiler.Greet.String(), profiler.Hello.String():
		return cyan
	case profiler.Auth.String(), profiler.AuthSetup.String(), profiler.Setup.String(), profiler.Hook.String():
		return magenta
	case "query":
		return green
	}
	return faint
}

// millis prints d in milliseconds without the unit.
func millis(d time.Duration) string { return strings.TrimSuffix(profiler.Millis(d), " ms") }

// percent prints part of all.
func percent(part, all time.Duration) string {
	if all <= 0 {
		return ""
	}
	return Percent(float64(part) / float64(all))
}

// Percent prints a share from 0 to 1 in per cent, with as many digits as it is worth.
func Percent(share float64) string {
	switch v := 100 * share; {
	case v == 0:
		return "0 %"
	case v < 0.095 && v > -0.095:
		return fmt.Sprintf("%.2f %%", v)
	case v < 9.95 && v > -9.95:
		return fmt.Sprintf("%.1f %%", v)
	default:
		return fmt.Sprintf("%.0f %%", v)
	}
}

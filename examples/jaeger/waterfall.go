package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// barColumns is how wide the time from a trace's begin to its end is drawn.
const barColumns = 32

// waterfall draws a trace as Jaeger shows it, and beside each span what its attributes say.
func waterfall(root *span) string {
	type line struct {
		name, note string
		s          *span
	}
	var lines []line
	longest := 0
	var add func(s *span, own, below string)
	add = func(s *span, own, below string) {
		l := line{own + s.name, note(s), s}
		longest = max(longest, utf8.RuneCountInString(l.name))
		lines = append(lines, l)
		for i, c := range s.children {
			if i == len(s.children)-1 {
				add(c, below+"└─ ", below+"   ")
			} else {
				add(c, below+"├─ ", below+"│  ")
			}
		}
	}
	add(root, "", "")
	end := root.end
	root.walk(func(s *span, _ int) { end = max(end, s.end) })

	var b strings.Builder
	for i, l := range lines {
		unit := "   "
		if i == 0 {
			unit = " ms"
		}
		text := fmt.Sprintf("%s%s %7s%s  %s  %s", l.name, strings.Repeat(" ", longest-utf8.RuneCountInString(l.name)),
			millis(l.s.duration()), unit, bar(l.s, root.start, end), l.note)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

// bar draws where in the trace a span lies, to an eighth of a column at its end. The shortest is a sliver.
func bar(s *span, start, end int64) string {
	const eighths = barColumns * 8
	scale := func(t int64) int { return int(float64(t-start) / float64(max(1, end-start)) * eighths) }
	from := min(max(scale(s.start), 0)/8, barColumns-1)
	length := max(1, min(scale(s.end), eighths)-from*8)
	text := strings.Repeat(" ", from) + strings.Repeat("█", length/8)
	if rest := length % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text + strings.Repeat(" ", max(0, barColumns-utf8.RuneCountInString(text)))
}

// note is what a person would look for in a span's attributes.
func note(s *span) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if s.failed {
		what, _, _ := strings.Cut(s.status, ":") // what to check comes after it
		parts = append(parts, strings.TrimSpace("✗ "+what))
	}
	switch index, query := s.attrs["connprof.query.index"].(int64); {
	case query && index == 1 && len(s.links) == 1 && s.links[0].trace != s.trace:
		say("on a new connection of another trace")
	case query && index == 1:
		say("on a new connection")
	case query:
		say("reused, query %d", index)
		if idle, ok := s.seconds("connprof.connection.idle"); ok && idle >= time.Millisecond {
			say("%s ms idle before", millis(idle))
		}
	case s.name == "tls":
		if s.attrs["tls.resumed"] == true {
			say("resumed")
		} else {
			say("full")
		}
	case strings.HasPrefix(s.name, "connection_setup "):
		if s.parent == "" {
			say("made in the background")
		}
	}
	if n, _ := s.attrs["connprof.query.attempts"].(int64); n > 1 {
		say("attempt %d", n)
	}
	if share, ok := s.seconds("connprof.tls.amortized"); ok {
		say("TLS %s a query", millis(share))
	}
	return strings.Join(parts, ", ")
}

// seconds is an attribute that holds a duration.
func (s *span) seconds(key string) (time.Duration, bool) {
	v, ok := s.attrs[key].(float64)
	return time.Duration(v * float64(time.Second)), ok
}

// millis prints milliseconds with three significant digits.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms == 0:
		return "0"
	case ms < 0.9995:
		return fmt.Sprintf("%.3f", ms)
	case ms < 9.995:
		return fmt.Sprintf("%.2f", ms)
	case ms < 99.95:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

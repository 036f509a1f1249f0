package profiler

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A table is rows of cells, the first row its head.
type table [][]string

// writeTo prints the table with two spaces before and between the columns. The first column and those in left are aligned to the left,
// all others to the right.
func (t table) writeTo(w io.Writer, left ...int) {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			toLeft := i == 0
			for _, l := range left {
				toLeft = toLeft || i == l
			}
			b.WriteString("  ")
			if toLeft {
				b.WriteString(cell + pad)
			} else {
				b.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// shareBar draws a share of 1, of at most twenty blocks, in eighths of a block.
func shareBar(share float64) string {
	n := int(min(max(share, 0), 1)*20*8 + 0.5)
	return strings.Repeat("█", n/8) + strings.TrimSpace(string([]rune(" ▏▎▍▌▋▊▉")[n%8]))
}

// inBrackets is countsText after a space and in brackets, or nothing.
func inBrackets(m map[string]int64) string {
	if len(m) == 0 {
		return ""
	}
	return " (" + countsText(m) + ")"
}

// Millis prints d in milliseconds with three significant digits and the unit: how connprof shows times to people.
func Millis(d time.Duration) string { return millis(d) + " ms" }

func millis(d time.Duration) string {
	ms := float64(d) / 1e6
	switch a := max(ms, -ms); {
	case a >= 99.95: // what rounds to 100
		return fmt.Sprintf("%.0f", ms)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", ms)
	case a >= 0.9995:
		return fmt.Sprintf("%.2f", ms)
	case a >= 0.09995:
		return fmt.Sprintf("%.3f", ms)
	case a == 0:
		return "0"
	}
	return fmt.Sprintf("%.4f", ms)
}

func orAny(n int) string {
	if n == 0 {
		return "any number"
	}
	return fmt.Sprint(n)
}

// countsText prints counts by name, the largest first.
func countsText(m map[string]int64) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(names, ", ")
}

// oneLine is s without line breaks: errors of several lines have their place in one of ours.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// A textWriter counts what it writes. Names and errors come from outside: what would steer a terminal it writes as an escape sequence, like
// \x1b.
type textWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (t *textWriter) Write(b []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.w.Write(harmless(b))
	t.n += int64(n)
	t.err = err
	return len(b), err
}

// harmless is b with its characters that steer what shows the text written out, line feeds excepted: control characters, and those that
// turn the direction of writing (Unicode's category Cf).
func harmless(b []byte) []byte {
	steers := func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }
	if !bytes.ContainsFunc(b, steers) {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		if steers(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

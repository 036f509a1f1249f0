package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printer prints to one writer. The zero value of each field but W is useful. It is for one goroutine at a time.
type Printer struct {
	// W is where the text goes.
	W io.Writer
	// Width is the number of columns to keep to; 0 means 100. Narrower than 40 counts as 40.
	Width int
	// Color says that escape sequences may be used.
	Color bool

	err error
}

// New returns a Printer for w. Where w is a terminal it takes the terminal's width, at most 120, and uses colour unless NO_COLOR is set
// or TERM says dumb. Anything else gets plain text, as wide as COLUMNS says, else 100 columns.
func New(w io.Writer) *Printer {
	p := &Printer{W: w}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		p.Width = n
	}
	columns, ok := Terminal(w)
	if !ok {
		return p
	}
	if columns > 0 {
		p.Width = min(columns, 120)
	}
	p.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return p
}

// Terminal reports whether w is a terminal, and how wide it is; 0 if it does not say.
func Terminal(w io.Writer) (columns int, ok bool) {
	f, isFile := w.(interface{ Fd() uintptr })
	if !isFile {
		return 0, false
	}
	return terminalSize(f.Fd())
}

// Err is the first error of the writer. After one, nothing more is written.
func (p *Printer) Err() error { return p.err }

func (p *Printer) width() int {
	if p.Width == 0 {
		return 100
	}
	return max(p.Width, 40)
}

// line prints one line, without blanks at its end.
func (p *Printer) line(parts ...string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.W, strings.TrimRight(strings.Join(parts, ""), " "))
	}
}

// A style is the parameter of an SGR sequence (ECMA-48 §8.3.117); "" is plain.
type style string

const (
	plain   style = ""
	bold    style = "1"
	faint   style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	blue    style = "34"
	magenta style = "35"
	cyan    style = "36"
)

func (p *Printer) paint(s style, text string) string {
	if !p.Color || s == plain || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// clean drops control characters: errors hold what a peer sent, which must not reach the terminal as escape sequences.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

// columns is how wide s is printed. All that is printed here is one column a rune.
func columns(s string) int { return utf8.RuneCountInString(s) }

func padLeft(s string, n int) string { return strings.Repeat(" ", max(0, n-columns(s))) + s }

func padRight(s string, n int) string { return s + strings.Repeat(" ", max(0, n-columns(s))) }

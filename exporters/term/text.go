package term

import "strings"

// Title prints the first line of all: a name, and what it is about.
func (p *Printer) Title(name, about string) {
	p.line()
	p.line(p.paint(bold, name), p.paint(faint, " · "+about))
	p.line()
}

// Heading prints a line across the page that begins a part, with a note beside it. A note that doesn't fit goes below.
func (p *Printer) Heading(text, note string) {
	p.line()
	room := p.width() - columns("━━ "+text+" ")
	fits := note != "" && columns(note)+5 <= room
	if fits {
		room -= columns(note) + 3
	}
	head := p.paint(faint, "━━ ") + p.paint(bold, text) + " "
	if fits {
		head += p.paint(faint, "· "+note) + " "
	}
	p.line(head, p.paint(faint, strings.Repeat("━", max(0, room))))
	if note != "" && !fits {
		p.wrapped(faint, "   ", "   ", note)
	}
}

// Subheading prints what follows, a table or bars.
func (p *Printer) Subheading(text, note string) {
	p.line()
	if note = strings.TrimSpace(note); note != "" && columns(text+note)+5 > p.width() {
		p.line("  ", p.paint(bold, text))
		p.wrapped(faint, "  ", "  ", note)
		return
	}
	p.line("  ", p.paint(bold, text), p.paint(faint, "  "+note))
}

// Text prints a paragraph, wrapped to the width.
func (p *Printer) Text(text string) { p.wrapped(plain, "  ", "  ", text) }

// Note prints a paragraph that stands back.
func (p *Printer) Note(text string) { p.wrapped(faint, "  ", "  ", text) }

// Item prints a paragraph with a mark in front.
func (p *Printer) Item(text string) { p.wrapped(plain, "  • ", "    ", text) }

// wrapped breaks text at blanks, but not between a number and its unit. A word longer than a line stays whole.
func (p *Printer) wrapped(s style, first, rest, text string) {
	indent, line := first, ""
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		word := clean(words[i])
		if i+1 < len(words) && isUnit(words[i+1]) {
			i++
			word += " " + clean(words[i])
		}
		if line != "" && columns(indent)+columns(line)+1+columns(word) > p.width() {
			p.line(indent, p.paint(s, line))
			indent, line = rest, ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		p.line(indent, p.paint(s, line))
	}
}

func isUnit(word string) bool {
	switch strings.TrimRight(word, ".,;:)") {
	case "ms", "%":
		return true
	}
	return false
}

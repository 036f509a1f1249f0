package term

import "strings"

// Column heads one column of a Table.
type Column struct {
	// Group stands above neighbouring columns that have the same one. They stay together where a table is broken.
	Group string
	// Title stands above the column.
	Title string
	// Left aligns it left; the first column always is.
	Left bool

	style style // of the cells
}

// Table is text in columns under a header of one or two lines. Rows may be shorter than Columns.
type Table struct {
	Columns []Column
	Rows    [][]string
}

const columnGap = 2

// Table prints t. Groups of columns that don't fit into the width continue below, with the first column repeated.
func (p *Printer) Table(t Table) {
	if len(t.Columns) == 0 {
		return
	}
	widths := t.widths()
	room := p.width() - columnGap - widths[0]
	for from := 1; ; {
		to, used := from, 0
		for to < len(t.Columns) {
			next, need := t.groupEnd(to), 0
			for c := to; c < next; c++ {
				need += columnGap + widths[c]
			}
			if used+need > room && to > from {
				break
			}
			used += need
			to = next
		}
		p.block(t, widths, from, to)
		if from = to; from >= len(t.Columns) {
			return
		}
		p.line()
	}
}

// widths are the columns' own; a group's title that is wider than its columns widens the last of them.
func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = columns(c.Title)
		for _, row := range t.Rows {
			if i < len(row) {
				widths[i] = max(widths[i], columns(clean(row[i])))
			}
		}
	}
	for from := 1; from < len(t.Columns); {
		to := t.groupEnd(from)
		total := -columnGap
		for c := from; c < to; c++ {
			total += columnGap + widths[c]
		}
		widths[to-1] += max(0, columns(t.Columns[from].Group)+min(1, to-from-1)-total)
		from = to
	}
	return widths
}

// groupEnd is the index after the group that begins at from.
func (t Table) groupEnd(from int) int {
	to := from + 1
	for to < len(t.Columns) && t.Columns[from].Group != "" && t.Columns[to].Group == t.Columns[from].Group {
		to++
	}
	return to
}

// block prints the first column and those from from to to.
func (p *Printer) block(t Table, widths []int, from, to int) {
	var groups strings.Builder
	groups.WriteString(strings.Repeat(" ", columnGap+widths[0]))
	grouped := false
	for c := from; c < to; {
		end, total := t.groupEnd(c), -columnGap
		for i := c; i < end; i++ {
			total += columnGap + widths[i]
		}
		title := t.Columns[c].Group
		grouped = grouped || title != ""
		groups.WriteString(strings.Repeat(" ", columnGap))
		if end > c+1 { // with a rule as wide as the group
			groups.WriteString(title + " " + strings.Repeat("─", max(0, total-columns(title)-1)))
		} else {
			groups.WriteString(padLeft(title, total))
		}
		c = end
	}
	if grouped {
		p.line(p.paint(faint, strings.TrimRight(groups.String(), " ")))
	}
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	if strings.TrimSpace(strings.Join(titles, "")) != "" {
		p.line(p.paint(faint, strings.TrimRight(t.cells(titles, widths, from, to, func(_ style, s string) string { return s }), " ")))
	}
	for _, row := range t.Rows {
		p.line(t.cells(row, widths, from, to, p.paint))
	}
}

func (t Table) cells(row []string, widths []int, from, to int, paint func(style, string) string) string {
	var b strings.Builder
	cell := func(c int, left bool) {
		text := ""
		if c < len(row) {
			text = clean(row[c])
		}
		b.WriteString(strings.Repeat(" ", columnGap))
		if left {
			text = padRight(text, widths[c])
		} else {
			text = padLeft(text, widths[c])
		}
		b.WriteString(paint(t.Columns[c].style, text))
	}
	cell(0, true)
	for c := from; c < to; c++ {
		cell(c, t.Columns[c].Left)
	}
	return b.String()
}

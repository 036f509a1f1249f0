package term

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// Priced is one variant's column of the amortisation table.
type Priced struct {
	// Title heads the column: "TLS on".
	Title string
	*profiler.Amortisation
}

// Amortisation prints what one query costs when 1, 10, 100 or 1000 of them share a connection, for each variant, with TLS's share of it as
// a figure and a bar, and from how many queries on TLS is less than 5 % and 1 %. Variants without a table are left out.
func (p *Printer) Amortisation(variants ...Priced) {
	var priced []Priced
	for _, v := range variants {
		if v.Amortisation != nil && len(v.Rows) > 0 {
			priced = append(priced, v)
		}
	}
	if len(priced) == 0 {
		return
	}
	t := Table{Columns: []Column{{Title: "queries a connection"}}}
	for _, row := range priced[0].Rows {
		t.Rows = append(t.Rows, []string{strconv.FormatInt(row.N, 10)})
	}
	for _, v := range priced {
		t.Columns = append(t.Columns, Column{Group: v.Title, Title: "ms a query"})
		if v.TLS > 0 {
			t.Columns = append(t.Columns, Column{Group: v.Title, Title: "of it TLS"}, Column{Group: v.Title, Left: true, style: phaseStyle(profiler.TLS.String())})
		}
		for i, row := range v.Rows {
			t.Rows[i] = append(t.Rows[i], millis(row.Cost))
			if v.TLS > 0 {
				t.Rows[i] = append(t.Rows[i], Percent(row.TLSShare), shareBar(row.TLSShare, min(20, max(4, p.width()-47))))
			}
		}
	}
	p.Table(t)
	for _, v := range priced {
		if text := threshold(v.Amortisation); text != "" {
			p.Note(text)
		}
	}
}

// shareBar is a bar of up to full columns.
func shareBar(share float64, full int) string {
	if share <= 0 {
		return ""
	}
	return blocks(max(1, int(min(share, 1)*float64(full*8)+0.5)))
}

// threshold says from how many queries a connection on TLS costs less than 5 % and 1 % of them; "" if there is no TLS.
func threshold(a *profiler.Amortisation) string {
	if a == nil || a.Below1 == 0 {
		return ""
	}
	return fmt.Sprintf("TLS is less than 5 %% of a query's time from %s queries a connection on, less than 1 %% from %s.",
		thousands(a.Below5), thousands(a.Below1))
}

// thousands prints n with commas.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), ",")
}

// Package term answers one question: how does a report look on a terminal? It prints headings, tables, a bar for each phase and the
// amortisation table, from a profiler.Report or from rows that the caller has.
//
// A [Printer] keeps to the terminal's width: text is wrapped, a table that is too wide continues below with its first column repeated,
// bars shrink. Colour is used on a terminal only, and never where NO_COLOR is set (no-color.org); piped output is plain text with block
// characters for the bars.
//
// It does not measure, and it keeps nothing.
package term

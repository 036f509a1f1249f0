// Package sqlopener tells a connect for a caller from one of database/sql's own opener.
package sqlopener

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// Background reports whether a connect runs for database/sql's own opener, which makes connections for callers that wait, under a context
// of the pool: it carries no one's values and the connection goes to any of them (sql.go, connectionOpener). Call it from below the driver's
// Connect, on its goroutine. The context doesn't tell: another wrapper of the Connector may have put values of its own into it. The stack
// does, mostly within its first few frames, and at one of two places that are known after the first connects.
func Background() bool {
	var near [5]uintptr
	n := runtime.Callers(2, near[:])
	for _, pc := range near[:n] {
		switch pc {
		case callers.Load():
			return false
		case openers.Load():
			return true
		}
	}
	if opener, found := look(slices.Clone(near[:n])); found || n < len(near) {
		return opener
	}
	var far [64]uintptr
	opener, _ := look(far[:runtime.Callers(2, far[:])])
	return opener
}

// callers and openers are where database/sql calls Connect for a caller and for its opener, as seen last.
var callers, openers atomic.Uintptr

// look finds who asked for the connect.
func look(pcs []uintptr) (opener, found bool) {
	for i := range pcs {
		frames := runtime.CallersFrames(pcs[i : i+1])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			switch f.Function {
			case "database/sql.(*DB).openNewConnection":
				openers.Store(pcs[i])
				return true, true
			case "database/sql.(*DB).conn":
				callers.Store(pcs[i])
				return false, true
			}
		}
	}
	return false, false
}

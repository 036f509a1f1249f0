package pool

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/connprof/connprof/profiler"
)

// What becomes of driver.ErrBadConn is database/sql's decision, and it shows on the stack only. Calls of a DB or a Stmt run inside
// (*DB).retry (sql.go), which tries twice on whatever connection it gets and once more at the end, and gives the caller the error of the
// last try. Calls of a Tx or a Conn run outside it and give the caller the first. A dead connection is rare enough to pay for a look at
// the stack; the last try is told from the others by its place in retry's source, which one try of our own finds out.

// again reports whether database/sql will repeat the call that runs now if it returns driver.ErrBadConn, and what the caller asked for: 0
// for what is no operation, or not known.
func again() (repeats bool, kind profiler.OpKind) {
	line, caller := retryLine()
	if line == 0 {
		return false, 0
	}
	return line != lastTry(), kindOf[caller]
}

var kindOf = map[string]profiler.OpKind{
	"database/sql.(*DB).QueryContext":   profiler.OpQuery,
	"database/sql.(*DB).ExecContext":    profiler.OpExec,
	"database/sql.(*DB).PrepareContext": profiler.OpPrepare,
	"database/sql.(*DB).BeginTx":        profiler.OpBegin,
	"database/sql.(*Stmt).QueryContext": profiler.OpQuery,
	"database/sql.(*Stmt).ExecContext":  profiler.OpExec,
}

// retryLine is where in (*DB).retry the goroutine is, 0 if it is not in it, and the function that called it.
func retryLine() (line int, caller string) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if line != 0 {
			return line, f.Function
		}
		if strings.HasPrefix(f.Function, "database/sql.(*DB).retry") {
			line = f.Line
		}
		if !more {
			return line, ""
		}
	}
}

// lastTry is the place in (*DB).retry of the last try, 0 if it can't be found out: a bad connection then counts as repeated.
var lastTry = sync.OnceValue(func() int {
	t := new(alwaysBad)
	db := sql.OpenDB(t)
	defer db.Close()
	if _, err := db.Exec(""); !errors.Is(err, driver.ErrBadConn) || len(t.lines) < 2 || t.lines[0] != t.lines[len(t.lines)-2] {
		return 0
	}
	return t.lines[len(t.lines)-1]
})

// alwaysBad is a driver whose connections are bad; it notes from where it was asked for one.
type alwaysBad struct{ lines []int }

func (a *alwaysBad) Driver() driver.Driver { return nil }
func (a *alwaysBad) Connect(context.Context) (driver.Conn, error) {
	line, _ := retryLine()
	a.lines = append(a.lines, line)
	return nil, driver.ErrBadConn
}

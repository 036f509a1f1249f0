// Package sqlopener tells a connect for a caller from one of database/sql's own opener.
package sqlopener

import (
	"context"
	"reflect"
	"runtime"
	"strings"
)

// Background reports whether a connect under ctx runs for database/sql's own opener, which makes connections for callers that wait, under a
// context of the pool: it carries no one's values and the connection goes to any of them (sql.go, connectionOpener). That context comes
// straight from context.WithCancel, so that any other kind spares the look at the stack. Call it from below the driver's Connect, on its
// goroutine.
func Background(ctx context.Context) bool {
	if reflect.TypeOf(ctx) != cancelType {
		return false
	}
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "database/sql.(*DB).openNewConnection") {
			return true
		}
		if !more {
			return false
		}
	}
}

var cancelType = func() reflect.Type {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return reflect.TypeOf(ctx)
}()

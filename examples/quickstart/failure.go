package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/connprof/connprof/profiler"
)

// failure says in one line what went wrong since the given time: the phase in which a connection failed, as p saw it, the error, and what
// to check. Where every connection was made, it was the query that failed.
func (v *variant) failure(p *profiler.Profiler, since time.Time, err error) error {
	report := p.Report()
	prefix := "quickstart: " + v.system
	if f, ok := lastFailure(report.Failures, since); ok {
		text := f.Error
		if f.Cause != "" && !strings.Contains(text, f.Cause) {
			text += " (" + f.Cause + ")"
		}
		role := ""
		if f.Role == profiler.RoleMonitor.String() {
			role = "monitor "
		}
		return fmt.Errorf("%s: %sconnection to %s failed in phase %s after %s: %s: %s",
			prefix, role, f.Address, f.Phase, profiler.Millis(f.Duration), strings.TrimRight(oneLine(text), ". "), f.Advice)
	}
	text := oneLine(err.Error())
	switch {
	case v.system == "mongodb" && merged(report, profiler.RolePool, profiler.MeasureCreate).Count == 0:
		return fmt.Errorf("%s: no server was selected: %s: check the URI's hosts, replicaSet and readPreference", prefix, text)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: query: no answer in time: %s: check the server's load, and -timeout", prefix, text)
	}
	return fmt.Errorf("%s: query: %s: the connection was made, so check the database's name and the rights on it", prefix, text)
}

// lastFailure prefers one that was not merely broken off: closing a client cancels what it was doing.
func lastFailure(fs []profiler.Failure, since time.Time) (f profiler.Failure, ok bool) {
	for i := len(fs) - 1; i >= 0 && !fs[i].At.Before(since.Round(0)); i-- {
		if !ok || f.Outcome == profiler.Canceled.String() {
			f, ok = fs[i], true
		}
	}
	return f, ok
}

// oneLine keeps an error, which may hold what a peer sent, to one printable line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)), " ")
	const most = 400
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return s
}

// addressError is a DSN or URI that can't be read. It never holds a password.
type addressError struct {
	system, flag string
	err          string
	lookup       bool // its names could not be looked up, as those of mongodb+srv are at once
}

func (e addressError) Error() string {
	todo := "check its syntax, see -help"
	if e.lookup {
		todo = "check the name, and that this machine's resolver knows its SRV record"
	}
	return fmt.Sprintf("%s: %s: %s: %s", e.system, e.flag, e.err, todo)
}

// withoutPassword replaces the user and password of a URI wherever text shows them.
func withoutPassword(text, uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if i := strings.LastIndex(rest, "@"); i > 0 {
		text = strings.ReplaceAll(text, rest[:i], "…")
	}
	return oneLine(text)
}

// driverTimeout is how long a driver may take for a connection that nobody's context bounds, a little less than the caller waits, so that the
// phase that hung is what timed out.
func driverTimeout(timeout time.Duration) time.Duration { return timeout - timeout/10 }

package profiler

import (
	"cmp"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Holder is a place in the program whose connections are held idle.
type Holder struct {
	// Function is the one that asked the pool, or ran the first operation on a connection that the pool had made meanwhile: the innermost that
	// is not connprof's, database/sql's or a driver's. File and Line say where in it.
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	// Count is how many connections it holds idle, Longest for how long one of them.
	Count   int64         `json:"count"`
	Longest time.Duration `json:"longest_ns"`
}

// String is the function, without the path of its package, and where in its file.
func (h Holder) String() string {
	name, types, _ := strings.Cut(h.Function, "[") // the types of a generic function have paths, too
	name = path.Base(name)
	if types != "" {
		name += "[" + types
	}
	return fmt.Sprintf("%s (%s:%d)", name, path.Base(h.File), h.Line)
}

// maxHolders bounds the places that a report names for an endpoint: those with the most connections.
const maxHolders = 10

// holderFrames is how much of a stack is kept: callers further up are of no interest, and an ORM is not deeper.
const holderFrames = 40

// stack is where a connection's present user took it.
type stack struct {
	mu  sync.Mutex
	pcs [holderFrames]uintptr // mu
	n   int                   // mu
}

type stackKey struct{}

// held notes who has the connection now: the calling goroutine, which is the user's.
func (c *Conn) held() {
	c.use.noted = true
	s, _ := c.Attached(stackKey{}).(*stack)
	if s == nil {
		s = new(stack)
		c.Attach(stackKey{}, s)
	}
	s.mu.Lock()
	s.n = runtime.Callers(3, s.pcs[:])
	s.mu.Unlock()
}

// holder is where the connection's present user took it; false if that was not noted.
func (c *Conn) holder() (h Holder, ok bool) {
	s, _ := c.Attached(stackKey{}).(*stack)
	if s == nil {
		return h, false
	}
	s.mu.Lock()
	pcs := slices.Clone(s.pcs[:s.n])
	s.mu.Unlock()
	frames := runtime.CallersFrames(pcs)
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == "" {
			continue
		}
		h.Function, h.File, h.Line = f.Function, f.File, f.Line
		if !ofLibrary(f.Function) || strings.HasSuffix(f.File, "_test.go") {
			break
		}
	}
	return h, h.Function != ""
}

// libraries are between an application and its connection.
var libraries = []string{
	"github.com/connprof/connprof/profiler", "github.com/connprof/connprof/pool", "github.com/connprof/connprof/handshake", "database/sql", "runtime",
	"github.com/go-sql-driver/mysql", "github.com/jackc/pgx", "github.com/jackc/puddle", "github.com/lib/pq", "go.mongodb.org/mongo-driver",
}

func ofLibrary(function string) bool {
	for _, l := range libraries {
		if rest, ok := strings.CutPrefix(function, l); ok && rest != "" && (rest[0] == '.' || rest[0] == '/') {
			return true
		}
	}
	return false
}

// addHolder counts a connection that h has held idle for as long.
func (e *EndpointReport) addHolder(h Holder, idle time.Duration) {
	i := slices.IndexFunc(e.Holders, func(o Holder) bool { return o.Function == h.Function && o.File == h.File && o.Line == h.Line })
	if i < 0 {
		i = len(e.Holders)
		e.Holders = append(e.Holders, h)
	}
	e.Holders[i].Count++
	e.Holders[i].Longest = max(e.Holders[i].Longest, idle)
}

// sortHolders orders them by how many connections they hold, and keeps the first.
func (e *EndpointReport) sortHolders() {
	slices.SortStableFunc(e.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Longest, a.Longest), cmp.Compare(a.String(), b.String()))
	})
	e.Holders = e.Holders[:min(len(e.Holders), maxHolders)]
}

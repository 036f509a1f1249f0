package fidelitytest

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// A host is a program that recovers from its driver's panics and goes on. It notes how each of its calls ended: with which error, with a
// panic of which value, or not at all.
type host struct {
	f       *fake
	db      *sql.DB
	wrapped bool
	ended   []string
}

// patience is how long a call may block before it counts as one that never ends; one that is slow, and doesn't block, has all the time.
const patience = time.Second

// do makes one call and reports whether it returned without an error.
func (h *host) do(name string, call func() error) (ok bool) {
	id, end := make(chan string, 1), make(chan string, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				end <- fmt.Sprintf("panics with %v", v)
			}
		}()
		id <- goroutine()
		end <- fmt.Sprintf("returns %v", call())
	}()
	how := ""
	for me := <-id; how == ""; {
		select {
		case how = <-end:
		case <-time.After(patience):
			if blocked(me) {
				how = "hangs"
			}
		}
	}
	h.ended = append(h.ended, name+" "+how)
	return how == "returns <nil>"
}

// goroutine is the number of the one that calls.
func goroutine() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return string(bytes.Fields(b)[1])
}

// blocked reports whether a goroutine waits for another.
func blocked(id string) bool {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	_, state, found := bytes.Cut(b, []byte("\ngoroutine "+id+" ["))
	if !found {
		return false
	}
	state, _, _ = bytes.Cut(state, []byte("]"))
	for _, waits := range []string{"sync.", "semacquire", "select", "chan receive"} {
		if bytes.HasPrefix(state, []byte(waits)) {
			return true
		}
	}
	return false
}

// believes notes what database/sql thinks of the pool.
func (h *host) believes() {
	st := h.db.Stats()
	h.ended = append(h.ended, fmt.Sprintf("open %d, in use %d, idle %d", st.OpenConnections, st.InUse, st.Idle))
}

// aUser is a DB, a Tx or a Conn, and what ends it.
type aUser struct {
	user
	ends []func() error
}

var users = map[string]func(*host) (u aUser, ok bool){
	"DB": func(h *host) (aUser, bool) { return aUser{user: h.db}, true },
	"DB, in pool.Wrap": func(h *host) (aUser, bool) {
		if h.wrapped {
			return aUser{user: pool.Wrap(h.db)}, true
		}
		return aUser{user: h.db}, true
	},
	"Conn": func(h *host) (u aUser, ok bool) {
		ok = h.do("Conn", func() error {
			c, err := h.db.Conn(context.Background())
			if err == nil {
				u = aUser{c, []func() error{c.Close, c.Close}}
			}
			return err
		})
		return u, ok
	},
	"Tx, to commit":    func(h *host) (aUser, bool) { return h.begin((*sql.Tx).Commit, (*sql.Tx).Rollback) },
	"Tx, to roll back": func(h *host) (aUser, bool) { return h.begin((*sql.Tx).Rollback, (*sql.Tx).Commit) },
}

func (h *host) begin(ends ...func(*sql.Tx) error) (u aUser, ok bool) {
	ok = h.do("BeginTx", func() error {
		t, err := h.db.BeginTx(context.Background(), nil)
		u.user = t
		for _, end := range ends {
			u.ends = append(u.ends, func() error { return end(t) })
		}
		return err
	})
	return u, ok
}

// goOn uses all of u, then ends it, then uses the pool that is left.
func (h *host) goOn(u aUser) {
	ctx := context.Background()
	uses := func(of string, u user) {
		h.do(of+".Exec", func() error { _, err := u.ExecContext(ctx, "exec ?", 1); return err })
		var rows *sql.Rows
		if h.do(of+".Query", func() (err error) { rows, err = u.QueryContext(ctx, "query ?", 1); return err }) {
			h.do("Columns", func() error { _, err := rows.ColumnTypes(); return err })
			for range 2 {
				h.do("Next", func() error { rows.Next(); return rows.Err() })
			}
			h.do("NextResultSet", func() error { rows.NextResultSet(); return rows.Err() })
			for range 2 {
				h.do("Rows.Close", rows.Close)
			}
		}
		var st *sql.Stmt
		if h.do(of+".Prepare", func() (err error) { st, err = u.PrepareContext(ctx, "prepared ?"); return err }) {
			h.do("Stmt.Exec", func() error { _, err := st.ExecContext(ctx, 1); return err })
			h.do("Stmt.QueryRow", func() error { var a, b any; return st.QueryRowContext(ctx, 1).Scan(&a, &b) })
			for range 2 {
				h.do("Stmt.Close", st.Close)
			}
		}
		if p, ok := u.(interface{ PingContext(context.Context) error }); ok {
			h.do(of+".Ping", func() error { return p.PingContext(ctx) })
		}
		h.believes()
	}
	uses("user", u.user)
	for _, end := range u.ends {
		h.do("end", end)
	}
	h.believes()
	uses("DB", h.db)
	h.do("DB.Close", h.db.Close)
	h.believes()
}

// recovers is the whole program: the first of the driver's calls that are noted like call panics.
func recovers(f *fake, p *profiler.Profiler, as, call string) *host {
	h := &host{f: f, db: pool.OpenDB(p, f), wrapped: p != nil}
	if call != "connect" {
		h.do("warm up", func() error { return h.db.PingContext(context.Background()) }) // so that there is an idle connection to reset
	}
	f.mu.Lock()
	f.panics = call
	f.mu.Unlock()
	for range 2 {
		if u, ok := users[as](h); ok {
			h.goOn(u)
			return h
		}
	}
	h.goOn(aUser{user: h.db})
	return h
}

// After a panic of its driver's that the program recovered from, whatever a call does bare, it does wrapped: database/sql keeps for ever the
// connection that ran for a DB, and lets Conn.Close, Tx.Commit and Tx.Rollback wait for ever for a query's panic.
func TestAfterADriversPanicAllGoesOnAsWithout(t *testing.T) {
	var (
		all           sync.WaitGroup
		mu            sync.Mutex
		panicked      = map[string]int{} // mu: by call, of the bare drivers
		hung, returns int                // mu
	)
	calls := []string{
		"connect", "ping", "reset", "valid", "exec", "query", "old exec", "old query", "prepare", "begin", "commit", "rollback", "check",
		"exec of", "query of", "close \"", "next", "next set", "close rows", "1 close",
	}
	for _, most := range []bool{false, true} {
		for as := range users {
			for _, call := range calls {
				all.Go(func() {
					bare, wrapped := recovers(newFake(most), nil, as, call), recovers(newFake(most), new(profiler.Profiler), as, call)
					mu.Lock()
					defer mu.Unlock()
					if !slices.Equal(bare.ended, wrapped.ended) || !slices.Equal(bare.f.log, wrapped.f.log) {
						t.Errorf("%s, all interfaces %v, panic in %q:\nbare    %q\nwrapped %q\nthe driver, bare %q\nwrapped          %q",
							as, most, call, bare.ended, wrapped.ended, bare.f.log, wrapped.f.log)
					}
					for _, how := range bare.ended {
						switch {
						case strings.HasSuffix(how, "panics with "+errPanic.Error()):
							panicked[call]++
						case strings.HasSuffix(how, "hangs"):
							hung++
						default:
							returns++
						}
					}
				})
			}
		}
	}
	all.Wait()
	t.Logf("%v panics, %d calls that never ended, %d that returned", panicked, hung, returns)
	for _, call := range calls {
		if panicked[call] == 0 {
			t.Errorf("no driver panicked in %q", call)
		}
	}
}

// newFake is a driver with the least or the most of the optional interfaces.
func newFake(most bool) *fake {
	if most {
		return &fake{conn: conns[len(conns)-1], stmt: stmts[len(stmts)-1], rows: answers[len(answers)-1]}
	}
	return &fake{conn: conns[0], stmt: stmts[0], rows: answers[0]}
}

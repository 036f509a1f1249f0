package fidelitytest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// seen is what a program saw of its database: everything it got, in order.
type seen struct {
	values []string
	errs   []error
}

func (s *seen) err(err error) bool {
	s.errs = append(s.errs, err)
	return err == nil
}

func (s *seen) value(v ...any) { s.values = append(s.values, fmt.Sprintf("%#v", v)) }

// believes is what database/sql thinks of the pool.
func (s *seen) believes(db *sql.DB) {
	st := db.Stats()
	st.WaitDuration = 0
	s.values = append(s.values, fmt.Sprintf("%+v", st))
}

// TestTheHostSeesNoDifference runs a program that uses all of database/sql over each kind of connection, bare and wrapped, where nothing
// fails and where calls fail by several plans. The driver must see the same calls with the same arguments, the program the same results
// and the very same errors, and database/sql must believe the same of the pool.
func TestTheHostSeesNoDifference(t *testing.T) {
	t.Logf("%d kinds of connections, %d of statements, %d of rows", len(conns), len(stmts), len(answers))
	runs := 60
	if len(conns) > 2 { // see TestEveryCombination…
		runs = 8
	}
	if long() {
		runs = 2 * len(stmts)
	}
	failures := 0
	for i := range conns {
		for k := range runs {
			j := (i>>4 + i*7 + k/2*5) % len(stmts)
			answer := (i + j*5 + k*11) % len(answers)
			plan := uint64(0) // nothing fails
			if k%2 == 1 {
				plan = uint64(i*runs + k)
			}
			bare := &fake{conn: conns[i], stmt: stmts[j], rows: answers[answer]}
			wrapped := &fake{conn: conns[i], stmt: stmts[j], rows: answers[answer]}
			want := run(bare, plan, nil)
			got := run(wrapped, plan, new(profiler.Profiler))
			if d := differ(bare.log, wrapped.log, want, got); d != "" {
				t.Errorf("%s, statement %04b, rows %06b, plan %d: %s", parts(conns[i]), j, answer, plan, d)
				if failures++; failures > 10 {
					t.FailNow()
				}
			}
		}
	}
}

// parts names the kind of a connection.
func parts(c func(*conn) driver.Conn) string { return fmt.Sprintf("%T", c(nil)) }

// differ says in what two runs differ, "" for in nothing.
func differ(log, gotLog []string, want, got *seen) string {
	for _, x := range []struct {
		what      string
		want, got []string
	}{{"the driver's calls", log, gotLog}, {"what the program got", want.values, got.values}} {
		if !slices.Equal(x.want, x.got) {
			i := 0
			for i < min(len(x.want), len(x.got)) && x.want[i] == x.got[i] {
				i++
			}
			around := func(s []string) []string { return s[max(0, i-3):min(len(s), i+3)] }
			return fmt.Sprintf("%s, around the %dth:\nbare    %q\nwrapped %q", x.what, i, around(x.want), around(x.got))
		}
	}
	if len(want.errs) != len(got.errs) {
		return fmt.Sprintf("errors:\nbare    %q\nwrapped %q", want.errs, got.errs)
	}
	for i := range want.errs {
		if !same(want.errs[i], got.errs[i]) {
			return fmt.Sprintf("the %dth error: bare %#v, wrapped %#v", i, want.errs[i], got.errs[i])
		}
	}
	return ""
}

// known are errors that exist once: bare and wrapped they must be the very same. The others are made by database/sql for each call.
var known = []error{
	nil, errBoom, errBadToo, errCustom, driver.ErrBadConn, driver.ErrSkip, driver.ErrRemoveArgument, context.Canceled, io.EOF,
	sql.ErrNoRows, sql.ErrTxDone, sql.ErrConnDone,
}

func same(a, b error) bool {
	if slices.Contains(known, a) || slices.Contains(known, b) {
		return a == b
	}
	return fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b) && same(errors.Unwrap(a), errors.Unwrap(b))
}

// run is the program, over f wrapped for p or bare for none.
func run(f *fake, plan uint64, p *profiler.Profiler) *seen {
	s := new(seen)
	var c driver.Connector = f
	if plan%4 < 2 {
		c = closing{f}
	}
	if plan != 0 {
		f.plan = rand.New(rand.NewPCG(plan, 1))
	}
	db := pool.OpenDB(p, c)
	db.SetMaxIdleConns(1)
	s.value(db.Driver() == c.Driver())
	ctx := context.WithValue(context.Background(), key{}, "caller")
	for _, step := range steps {
		step(ctx, db, s, f)
		s.believes(db)
	}
	s.err(db.Close())
	s.believes(db)
	return s
}

// within runs a call whose context the driver may end.
func (f *fake) within(ctx context.Context, call func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	f.cancel = cancel
	f.mu.Unlock()
	call(ctx)
	f.mu.Lock()
	f.cancel = nil
	f.mu.Unlock()
	cancel()
}

var arguments = [][]any{
	{7, "s"}, {custom{"c"}, nil}, {sql.Named("n", 1), []byte("b")}, {time.Duration(3), true}, {make(chan int), 1},
}

// user is what a DB, a Tx and a Conn have in common.
type user interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

var steps = []func(context.Context, *sql.DB, *seen, *fake){
	func(ctx context.Context, db *sql.DB, s *seen, f *fake) {
		f.within(ctx, func(ctx context.Context) { s.err(db.PingContext(ctx)) })
	},
	func(ctx context.Context, db *sql.DB, s *seen, f *fake) {
		for _, args := range arguments {
			f.within(ctx, func(ctx context.Context) {
				execute(s, func() (sql.Result, error) { return db.ExecContext(ctx, "exec ?, ?", args...) })
			})
		}
		execute(s, func() (sql.Result, error) { return db.ExecContext(ctx, "exec") })
	},
	func(ctx context.Context, db *sql.DB, s *seen, f *fake) { everything(ctx, db, s, f, len(arguments)) },
	func(ctx context.Context, db *sql.DB, s *seen, f *fake) {
		for _, opts := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
			var tx *sql.Tx
			var err error
			begin := func(ctx context.Context) { tx, err = db.BeginTx(ctx, opts) }
			if opts == nil {
				begin(ctx)
			} else {
				f.within(ctx, func(ctx context.Context) {
					if begin(ctx); err == nil {
						f.mu.Lock()
						f.cancel = nil
						f.mu.Unlock()
						s.err(tx.Rollback())
						s.err(tx.Commit())
					}
				})
			}
			if !s.err(err) || opts != nil {
				continue
			}
			everything(ctx, tx, s, f, 2)
			s.err(tx.Commit())
			s.err(tx.Rollback())
		}
	},
	func(ctx context.Context, db *sql.DB, s *seen, f *fake) {
		c, err := db.Conn(ctx)
		if !s.err(err) {
			return
		}
		s.err(c.PingContext(ctx))
		everything(ctx, c, s, f, 2)
		s.err(c.Raw(func(dc any) error {
			s.value(fmt.Sprintf("%T", pool.Unwrap(dc)))
			if _, ok := pool.Unwrap(dc).(driver.ExecerContext); ok { // a result is the driver's own, for whoever knows its type
				r, err := dc.(driver.ExecerContext).ExecContext(ctx, "raw exec", nil)
				s.value(fmt.Sprintf("%T", r))
				s.err(err)
			}
			_, err := pool.Unwrap(dc).(driver.Conn).Prepare("raw")
			return err
		}))
		s.err(c.Close())
		s.err(c.Close())
	},
	canceledTx,
}

// everything is what can be done with a DB, a Tx or a Conn, with the first n of the arguments.
func everything(ctx context.Context, u user, s *seen, f *fake, n int) {
	for _, args := range arguments[:n] {
		ask(s, func() (*sql.Rows, error) { return u.QueryContext(ctx, "query ?, ?", args...) })
	}
	var a, b any
	s.err(u.QueryRowContext(ctx, "row").Scan(&a, &b))
	s.value(a, b)
	for _, text := range []string{"of ?, ?", " of any"} {
		var st *sql.Stmt
		var err error
		f.within(ctx, func(ctx context.Context) { st, err = u.PrepareContext(ctx, text) })
		if !s.err(err) {
			continue
		}
		for _, args := range arguments[:n] {
			f.within(ctx, func(ctx context.Context) {
				execute(s, func() (sql.Result, error) { return st.ExecContext(ctx, args...) })
			})
			ask(s, func() (*sql.Rows, error) { return st.QueryContext(ctx, args...) })
		}
		s.err(st.Close())
	}
}

func execute(s *seen, run func() (sql.Result, error)) {
	r, err := run()
	if !s.err(err) {
		return
	}
	id, err := r.LastInsertId()
	s.err(err)
	n, err := r.RowsAffected()
	s.err(err)
	s.value(id, n)
}

func ask(s *seen, run func() (*sql.Rows, error)) {
	rows, err := run()
	if !s.err(err) {
		return
	}
	cols, err := rows.Columns()
	s.err(err)
	s.value(cols)
	types, err := rows.ColumnTypes()
	s.err(err)
	for _, ct := range types {
		length, lengthOK := ct.Length()
		null, nullOK := ct.Nullable()
		p, sc, ok := ct.DecimalSize()
		s.value(ct.Name(), ct.DatabaseTypeName(), fmt.Sprint(ct.ScanType()), length, lengthOK, null, nullOK, p, sc, ok)
	}
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var a, b any
			s.err(rows.Scan(&a, &b))
			s.value(a, b)
		}
		s.err(rows.Err())
	}
	s.err(rows.Err())
	s.err(rows.Close())
}

// canceledTx ends a transaction's context while nothing runs: whether its connection is kept depends on what database/sql believes it can do.
func canceledTx(ctx context.Context, db *sql.DB, s *seen, _ *fake) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if !s.err(err) {
		return
	}
	cancel()
	for !errors.Is(tx.Commit(), sql.ErrTxDone) { // database/sql rolls back on a goroutine
		time.Sleep(10 * time.Microsecond)
	}
	for db.Stats().InUse > 0 {
		time.Sleep(10 * time.Microsecond)
	}
	_, err = tx.ExecContext(context.Background(), "late")
	s.err(err)
}

package pool

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
)

// fake is a driver whose connections have the optional interfaces that a test chooses. It keeps a log of what is called on it.
type fake struct {
	mu   sync.Mutex
	log  []string                                // mu
	exec func(query string) error                // nil: success
	rows func(query string) (driver.Rows, error) // nil: one row
	has  map[string]bool                         // "exec", "query", "reset", "valid"
	wrap func(*fakeConn) driver.Conn             // nil: by has
	dial func(ctx context.Context, conn *fakeConn) error
	made int // mu
}

func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, s)
}

func (f *fake) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.log...)
}

func (f *fake) Driver() driver.Driver { return fakeDriver{} }

type fakeDriver struct{}

func (fakeDriver) Open(string) (driver.Conn, error) {
	return nil, errors.New("fake: use the connector")
}

func (f *fake) Connect(ctx context.Context) (driver.Conn, error) {
	f.mu.Lock()
	f.made++
	c := &fakeConn{f: f, id: f.made, valid: true}
	f.mu.Unlock()
	if f.dial != nil {
		if err := f.dial(ctx, c); err != nil {
			return nil, err
		}
	}
	if f.wrap != nil {
		return f.wrap(c), nil
	}
	return c.with(f.has["exec"], f.has["query"], f.has["reset"], f.has["valid"]), nil
}

// fakeConn is the bare connection: what every driver must have.
type fakeConn struct {
	f     *fake
	id    int
	valid bool
}

func (c *fakeConn) Prepare(query string) (driver.Stmt, error) {
	c.f.note("prepare " + query)
	return fakeStmt{c, query}, nil
}
func (c *fakeConn) Close() error { c.f.note("close"); return nil }
func (c *fakeConn) Begin() (driver.Tx, error) {
	c.f.note("begin")
	return fakeTx{c}, nil
}

func (c *fakeConn) run(query string) error {
	if c.f.exec != nil {
		return c.f.exec(query)
	}
	return nil
}

func (c *fakeConn) query(query string) (driver.Rows, error) {
	if c.f.rows != nil {
		return c.f.rows(query)
	}
	return &fakeRows{left: 1}, nil
}

type fakeStmt struct {
	c     *fakeConn
	query string
}

func (s fakeStmt) Close() error  { s.c.f.note("close statement"); return nil }
func (s fakeStmt) NumInput() int { return -1 }
func (s fakeStmt) Exec([]driver.Value) (driver.Result, error) {
	s.c.f.note("exec statement")
	return driver.ResultNoRows, s.c.run(s.query)
}
func (s fakeStmt) Query([]driver.Value) (driver.Rows, error) {
	s.c.f.note("query statement")
	return s.c.query(s.query)
}

type fakeTx struct{ c *fakeConn }

func (t fakeTx) Commit() error   { t.c.f.note("commit"); return nil }
func (t fakeTx) Rollback() error { t.c.f.note("rollback"); return nil }

type fakeRows struct {
	left int
	err  error
}

func (r *fakeRows) Columns() []string { return []string{"n"} }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if r.left == 0 {
		if r.err != nil {
			return r.err
		}
		return io.EOF
	}
	r.left--
	dest[0] = int64(r.left)
	return nil
}

type (
	fakeExec  struct{ c *fakeConn }
	fakeQuery struct{ c *fakeConn }
	fakeReset struct{ c *fakeConn }
	fakeValid struct{ c *fakeConn }
)

func (p fakeExec) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	p.c.f.note("exec " + query)
	return driver.ResultNoRows, p.c.run(query)
}

func (p fakeQuery) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	p.c.f.note("query " + query)
	return p.c.query(query)
}

func (p fakeReset) ResetSession(context.Context) error {
	p.c.f.note("reset")
	if !p.c.valid {
		return driver.ErrBadConn
	}
	return nil
}

func (p fakeValid) IsValid() bool { p.c.f.note("valid"); return p.c.valid }

// with gives the connection exactly the chosen interfaces.
func (c *fakeConn) with(exec, query, reset, valid bool) driver.Conn {
	e, q, r, v := fakeExec{c}, fakeQuery{c}, fakeReset{c}, fakeValid{c}
	type (
		E = fakeExec
		Q = fakeQuery
		R = fakeReset
		V = fakeValid
		C = *fakeConn
	)
	n := 0
	for i, b := range []bool{exec, query, reset, valid} {
		if b {
			n |= 1 << i
		}
	}
	return [...]driver.Conn{
		c,
		struct {
			C
			E
		}{c, e},
		struct {
			C
			Q
		}{c, q},
		struct {
			C
			E
			Q
		}{c, e, q},
		struct {
			C
			R
		}{c, r},
		struct {
			C
			E
			R
		}{c, e, r},
		struct {
			C
			Q
			R
		}{c, q, r},
		struct {
			C
			E
			Q
			R
		}{c, e, q, r},
		struct {
			C
			V
		}{c, v},
		struct {
			C
			E
			V
		}{c, e, v},
		struct {
			C
			Q
			V
		}{c, q, v},
		struct {
			C
			E
			Q
			V
		}{c, e, q, v},
		struct {
			C
			R
			V
		}{c, r, v},
		struct {
			C
			E
			R
			V
		}{c, e, r, v},
		struct {
			C
			Q
			R
			V
		}{c, q, r, v},
		struct {
			C
			E
			Q
			R
			V
		}{c, e, q, r, v},
	}[n]
}

//lint:file-ignore SA1019 database/sql still asks drivers for these interfaces, and so must a wrapper

package pool

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// The optional interfaces whose presence changes what database/sql does, each as a part that wrapConn adds or not:
//
//   - ExecerContext and QueryerContext: an always-present one answering ErrSkip is not neutral, since the arguments have then been
//     converted with the connection's checker and not with the statement's (sql.go, execDC and queryDC).
//   - SessionResetter and Validator: both together decide whether a connection outlives a transaction whose context ended (sql.go,
//     beginDC). A lone SessionResetter that does nothing is neutral, a Validator beside it is not.

//
// Execer and Queryer, which database/sql asks for only where ExecerContext and QueryerContext are missing, come along for those who ask
// inside sql.Conn.Raw.

type execPart struct{ c *sqlConn }

func (p execPart) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c := p.c
	var op profiler.Op
	c.begin(ctx, &op, profiler.OpExec, profiler.Now(), query, false)
	var r driver.Result
	var err error
	if c.execer != nil {
		r, err = c.execer.ExecContext(ctx, query, args)
	} else {
		r, err = execOld(ctx, c.oldExec, query, args)
	}
	return c.execDone(ctx, &op, query, r, err)
}

// Exec is the driver's own, if it has one.
func (p execPart) Exec(query string, args []driver.Value) (driver.Result, error) {
	e, ok := p.c.inner.(driver.Execer)
	if !ok {
		return p.ExecContext(context.Background(), query, named(args))
	}
	var op profiler.Op
	p.c.begin(context.Background(), &op, profiler.OpExec, profiler.Now(), query, false)
	r, err := e.Exec(query, args)
	return p.c.execDone(context.Background(), &op, query, r, err)
}

func (c *sqlConn) execDone(ctx context.Context, op *profiler.Op, query string, r driver.Result, err error) (driver.Result, error) {
	if err == driver.ErrSkip {
		c.declined = op.Started()
		c.wire.declined(op)
		op.Skip(false)
		return r, err
	}
	if c.turns && !localInfile(query) {
		op.Turns = 1
	}
	c.end(ctx, op, err)
	return r, err
}

type queryPart struct{ c *sqlConn }

func (p queryPart) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c := p.c
	w := c.beginQuery(ctx, profiler.Now(), query, false)
	var r driver.Rows
	var err error
	if c.queryer != nil {
		r, err = c.queryer.QueryContext(ctx, query, args)
	} else {
		r, err = queryOld(ctx, c.oldQuery, query, args)
	}
	if err != nil {
		return c.unanswered(ctx, w, r, err)
	}
	c.took(&w.op, 1)
	return c.answered(ctx, w, r), nil
}

// Query is the driver's own, if it has one.
func (p queryPart) Query(query string, args []driver.Value) (driver.Rows, error) {
	q, ok := p.c.inner.(driver.Queryer)
	if !ok {
		return p.QueryContext(context.Background(), query, named(args))
	}
	ctx := context.Background()
	w := p.c.beginQuery(ctx, profiler.Now(), query, false)
	r, err := q.Query(query, args)
	if err != nil {
		return p.c.unanswered(ctx, w, r, err)
	}
	p.c.took(&w.op, 1)
	return p.c.answered(ctx, w, r), nil
}

// unanswered ends a query that failed, or that goes on as Prepare and Stmt.
func (c *sqlConn) unanswered(ctx context.Context, w *rows, r driver.Rows, err error) (driver.Rows, error) {
	if err == driver.ErrSkip {
		c.declined = w.op.Started()
		c.wire.declined(&w.op)
		w.op.Skip(false)
		return r, err
	}
	c.end(ctx, &w.op, err)
	return r, err
}

type resetPart struct{ c *sqlConn }

// ResetSession is called at each checkout but the first.
func (p resetPart) ResetSession(ctx context.Context) error {
	c := p.c
	c.ops, c.declined, c.used = 0, 0, true
	c.wire.abandoned()
	if c.resetter != nil {
		if err := c.resetter.ResetSession(ctx); err != nil {
			if errors.Is(err, driver.ErrBadConn) {
				c.dead(ctx, err)
			} else { // database/sql goes on
				c.checkedOut(ctx)
			}
			return err
		}
	}
	c.returned = 0
	c.checkedOut(ctx)
	return nil
}

// dead says that the connection was found dead at checkout. If database/sql gives up now, the caller's operation has failed with it.
func (c *sqlConn) dead(ctx context.Context, err error) {
	c.reason, c.err = profiler.CloseStale, err
	repeats, kind := again()
	if repeats || kind == 0 {
		c.of.Stale(ctx, profiler.Now())
		return
	}
	op := c.of.Begin(ctx, kind, 0)
	op.End(ctx, 0, err)
}

type validPart struct{ c *sqlConn }

// IsValid is called at each return that did not fail already.
func (p validPart) IsValid() bool {
	c := p.c
	c.plain = nil
	ok := c.validator.IsValid()
	if !ok {
		c.invalid()
	}
	c.of.CheckedIn(0)
	c.returned = c.of.ReturnedAt()
	return ok
}

// wrapConn wraps dc with exactly the interfaces that matter.
func wrapConn(dc driver.Conn, of *profiler.Conn, by *Connector, meter profiler.Meter) driver.Conn {
	c := &sqlConn{inner: dc, of: of, turns: by.TurnPerCall, closes: by.closes.Load(), wire: wire{meter: meter}}
	c.execer, _ = dc.(driver.ExecerContext)
	c.queryer, _ = dc.(driver.QueryerContext)
	if c.execer == nil {
		c.oldExec, _ = dc.(driver.Execer)
	}
	if c.queryer == nil {
		c.oldQuery, _ = dc.(driver.Queryer)
	}
	c.resetter, _ = dc.(driver.SessionResetter)
	c.validator, _ = dc.(driver.Validator)

	e, q, r, v := execPart{c}, queryPart{c}, resetPart{c}, validPart{c}
	exec := c.execer != nil || c.oldExec != nil
	query := c.queryer != nil || c.oldQuery != nil
	valid := c.validator != nil
	if !valid {
		of.ReturnsUnseen()
	}
	reset := c.resetter != nil || !valid
	switch {
	case exec && query && reset && valid:
		return &struct {
			*sqlConn
			execPart
			queryPart
			resetPart
			validPart
		}{c, e, q, r, v}
	case exec && query && reset:
		return &struct {
			*sqlConn
			execPart
			queryPart
			resetPart
		}{c, e, q, r}
	case exec && query:
		return &struct {
			*sqlConn
			execPart
			queryPart
			validPart
		}{c, e, q, v}
	case exec && reset && valid:
		return &struct {
			*sqlConn
			execPart
			resetPart
			validPart
		}{c, e, r, v}
	case exec && reset:
		return &struct {
			*sqlConn
			execPart
			resetPart
		}{c, e, r}
	case exec:
		return &struct {
			*sqlConn
			execPart
			validPart
		}{c, e, v}
	case query && reset && valid:
		return &struct {
			*sqlConn
			queryPart
			resetPart
			validPart
		}{c, q, r, v}
	case query && reset:
		return &struct {
			*sqlConn
			queryPart
			resetPart
		}{c, q, r}
	case query:
		return &struct {
			*sqlConn
			queryPart
			validPart
		}{c, q, v}
	case reset && valid:
		return &struct {
			*sqlConn
			resetPart
			validPart
		}{c, r, v}
	case reset:
		return &struct {
			*sqlConn
			resetPart
		}{c, r}
	}
	return &struct {
		*sqlConn
		validPart
	}{c, v}
}

// Unwrap returns the driver's own connection for what sql.Conn.Raw hands out, and anything else as it is.
func Unwrap(driverConn any) any {
	if u, ok := driverConn.(interface{ unwrap() driver.Conn }); ok {
		return u.unwrap()
	}
	return driverConn
}

func (c *sqlConn) unwrap() driver.Conn { return c.inner }

// localInfile reports whether a statement may make the server ask for a file in between, one round trip more: MySQL's LOAD DATA LOCAL.
// Others are told by their first letter.
func localInfile(query string) bool {
	if query == "" {
		return false
	}
	switch query[0] | 0x20 {
	case 'i', 'u', 'd', 's', 'c', 'r', 'a', 'b':
		return false
	}
	return strings.Contains(strings.ToUpper(query), "INFILE")
}

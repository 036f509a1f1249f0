//lint:file-ignore SA1019 database/sql still asks drivers for these interfaces, and so must a wrapper

package pool

import (
	"context"
	"database/sql/driver"

	"github.com/connprof/connprof/profiler"
)

// The optional interfaces whose presence changes what database/sql does, each as a part that wrapConn adds or not:
//
//   - ExecerContext and QueryerContext: an always-present one answering ErrSkip is not neutral, since the arguments have then been
//     converted with the connection's checker and not with the statement's (sql.go, execDC and queryDC).
//   - SessionResetter and Validator: both together decide whether a connection outlives a transaction whose context ended (sql.go,
//     beginDC). A lone SessionResetter that does nothing is neutral, a Validator beside it is not.

type execPart struct{ c *sqlConn }

func (p execPart) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c := p.c
	op := c.begin(ctx, profiler.OpExec, profiler.Now(), query)
	var r driver.Result
	var err error
	if c.execer != nil {
		r, err = c.execer.ExecContext(ctx, query, args)
	} else {
		r, err = execOld(ctx, c.oldExec, query, args)
	}
	if err == driver.ErrSkip {
		c.declined = op.Started()
		op.Skip(false)
		return r, err
	}
	c.end(ctx, &op, err)
	return r, err
}

type queryPart struct{ c *sqlConn }

func (p queryPart) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c := p.c
	op := c.begin(ctx, profiler.OpQuery, profiler.Now(), query)
	var r driver.Rows
	var err error
	if c.queryer != nil {
		r, err = c.queryer.QueryContext(ctx, query, args)
	} else {
		r, err = queryOld(ctx, c.oldQuery, query, args)
	}
	if err == driver.ErrSkip {
		c.declined = op.Started()
		op.Skip(false)
		return r, err
	}
	return c.rowsOf(ctx, &op, r, err)
}

type resetPart struct{ c *sqlConn }

// ResetSession is called at each checkout but the first.
func (p resetPart) ResetSession(ctx context.Context) error {
	c := p.c
	at := profiler.Now()
	c.ops, c.declined = 0, 0
	if c.resetter != nil {
		if err := c.resetter.ResetSession(ctx); err != nil {
			c.reason, c.err = profiler.CloseStale, err
			return err
		}
	}
	c.of.CheckedOut(ctx, 0, at)
	return nil
}

type validPart struct{ c *sqlConn }

// IsValid is called at each return that did not fail already.
func (p validPart) IsValid() bool {
	ok := p.c.validator.IsValid()
	if !ok {
		p.c.reason = profiler.CloseError
	}
	p.c.of.CheckedIn(0)
	return ok
}

// wrapConn wraps dc with exactly the interfaces that matter.
func wrapConn(dc driver.Conn, of *profiler.Conn) driver.Conn {
	c := &sqlConn{inner: dc, of: of}
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

package main

import (
	"context"
	"database/sql/driver"
	"io"
)

// noop is a driver that does nothing, as fast as it can: what is measured on it is database/sql and what wraps it. Its connections have
// the optional interfaces that the usual drivers have.
type noop struct{}

var (
	_ driver.Driver        = noop{}
	_ driver.DriverContext = noop{}
	_ driver.Connector     = noop{}
)

func (noop) Open(string) (driver.Conn, error)                 { return new(noopConn), nil }
func (d noop) OpenConnector(string) (driver.Connector, error) { return d, nil }
func (noop) Connect(context.Context) (driver.Conn, error)     { return new(noopConn), nil }
func (d noop) Driver() driver.Driver                          { return d }

type noopConn struct{ rows noopRows }

var (
	_ driver.Pinger             = (*noopConn)(nil)
	_ driver.ExecerContext      = (*noopConn)(nil)
	_ driver.QueryerContext     = (*noopConn)(nil)
	_ driver.ConnPrepareContext = (*noopConn)(nil)
	_ driver.ConnBeginTx        = (*noopConn)(nil)
	_ driver.SessionResetter    = (*noopConn)(nil)
	_ driver.Validator          = (*noopConn)(nil)
)

func (c *noopConn) Prepare(string) (driver.Stmt, error) { return noopStmt{c}, nil }
func (c *noopConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return noopStmt{c}, nil
}
func (c *noopConn) Close() error                       { return nil }
func (c *noopConn) Begin() (driver.Tx, error)          { return noopTx{}, nil }
func (c *noopConn) Ping(context.Context) error         { return nil }
func (c *noopConn) ResetSession(context.Context) error { return nil }
func (c *noopConn) IsValid() bool                      { return true }

func (c *noopConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return noopTx{}, nil
}

func (c *noopConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (c *noopConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &c.rows, nil
}

type noopStmt struct{ c *noopConn }

func (noopStmt) Close() error                                { return nil }
func (noopStmt) NumInput() int                               { return -1 }
func (noopStmt) Exec([]driver.Value) (driver.Result, error)  { return driver.ResultNoRows, nil }
func (s noopStmt) Query([]driver.Value) (driver.Rows, error) { return &s.c.rows, nil }

type noopTx struct{}

func (noopTx) Commit() error   { return nil }
func (noopTx) Rollback() error { return nil }

type noopRows struct{}

func (*noopRows) Columns() []string         { return nil }
func (*noopRows) Close() error              { return nil }
func (*noopRows) Next([]driver.Value) error { return io.EOF }

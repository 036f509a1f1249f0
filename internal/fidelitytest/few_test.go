package fidelitytest

import "database/sql/driver"

// The least and the most that drivers have, for a plain run of the tests; variants_test.go puts all combinations in place of this file.
var (
	conns = []func(*conn) driver.Conn{
		func(c *conn) driver.Conn { return c },
		func(c *conn) driver.Conn {
			return struct {
				*conn
				connPing
				connExec
				connQuery
				connExecOld
				connQryOld
				connPrepare
				connBegin
				connReset
				connValid
				connCheck
			}{
				c, connPing{c}, connExec{c}, connQuery{c}, connExecOld{c}, connQryOld{c}, connPrepare{c}, connBegin{c}, connReset{c},
				connValid{c}, connCheck{c},
			}
		},
	}
	stmts = []func(*stmt) driver.Stmt{
		func(s *stmt) driver.Stmt { return s },
		func(s *stmt) driver.Stmt {
			return struct {
				*stmt
				stmtExec
				stmtQuery
				stmtCheck
				stmtConvert
			}{s, stmtExec{s}, stmtQuery{s}, stmtCheck{s}, stmtConvert{s}}
		},
	}
	answers = []func(*rows) driver.Rows{
		func(r *rows) driver.Rows { return r },
		func(r *rows) driver.Rows {
			return struct {
				*rows
				rowsSets
				rowsScanType
				rowsTypeName
				rowsLength
				rowsNullable
				rowsPrecision
			}{r, rowsSets{r}, rowsScanType{r}, rowsTypeName{r}, rowsLength{r}, rowsNullable{r}, rowsPrecision{r}}
		},
	}
)

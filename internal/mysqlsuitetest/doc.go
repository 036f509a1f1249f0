// Package mysqlsuitetest runs go-sql-driver/mysql's own tests against a MariaDB, bare and with this project underneath, and compares: a
// wrapper that changes nothing passes and fails the same tests. It is tests only; make suite-mysql runs it.
package mysqlsuitetest

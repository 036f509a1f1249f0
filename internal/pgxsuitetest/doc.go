// Package pgxsuitetest runs the tests of github.com/jackc/pgx/v5 that need a server against a private PostgreSQL, bare and with package
// pgxprof underneath, and compares. It is tests only; make suite-pgx runs it.
package pgxsuitetest

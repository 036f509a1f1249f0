// Package pgxprof profiles the connections of github.com/jackc/pgx/v5. It answers one question: how does a program that uses pgx, with
// pgxpool, alone or through database/sql, get profiled without a change to its code? Adoption is one line:
//
//	cfg, err := pgxpool.ParseConfig(url)
//	…
//	db, err := pgxpool.NewWithConfig(ctx, pgxprof.Instrument(&p, cfg))
//
// InstrumentConn does the same for a *pgx.ConnConfig: for pgx.ConnectConfig, and for database/sql through stdlib.OpenDB, where sql.Conn.Raw
// still hands out pgx's own connection.
//
// One connect of pgx may dial several times: for each host, for each of its addresses, without TLS after a refusal (sslmode=prefer), again
// for target_session_attrs. It is one create, whose Attempts are the dials. The login ends with the read that brought the
// server's ReadyForQuery; what ValidateConnect and AfterConnect then ask the server is profiler.Setup, and never a query. A dial that
// belongs to no connect carries a cancel request, and has profiler.RoleCancel; connections that a program makes with package pgconn alone,
// from a configuration that was instrumented, can't be told from those.
//
// pgx has no hook for a query's first response, and Query returns before the server answers: an operation's first response and its end are
// both where pgx's tracer sees the end, at Rows.Close. A statement that pgx prepares first is part of the query that needs it.
package pgxprof

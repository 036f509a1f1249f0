// Package pgxprof profiles the connections of github.com/jackc/pgx/v5. It answers one question: how does a program that uses pgx, with
// pgxpool, alone or through database/sql, get profiled without a change to its code? Adoption is one line:
//
//	cfg, err := pgxpool.ParseConfig(url)
//	…
//	db, err := pgxpool.NewWithConfig(ctx, pgxprof.Instrument(&p, cfg))
//
// InstrumentConn does the same for a *pgx.ConnConfig: for pgx.ConnectConfig, and for database/sql through stdlib.OpenDB, where sql.Conn.Raw
// still hands out pgx's own connection. Watch adds the pool's own counters to reports.
//
// # Connects
//
// One connect of pgx may dial several times: for each host, for each of its addresses, without TLS after a refusal (sslmode=prefer), again
// for target_session_attrs. It is one create, whose Attempts are the dials. The login ends with the read that brought the
// server's ReadyForQuery; what ValidateConnect and AfterConnect then ask the server is profiler.Setup, and never a query. A dial that
// belongs to no connect carries a cancel request, and has profiler.RoleCancel; connections that a program makes with package pgconn alone,
// from a configuration that was instrumented, can't be told from those.
//
// # Pools
//
// A caller's wait ends when the pool has chosen a connection. The check that it is alive (a ping, by default after a second of idling) comes
// after that: it is Operation.Check and profiler.MeasureCheck, and no part of the wait. A caller that gives up has waited with that outcome,
// while the connect it caused goes on and is reported as what it becomes. What the pool connects in the background has no caller. What the
// pool's hooks (PrepareConn, BeforeAcquire, AfterRelease) run on a connection is no operation.
//
// Closes have their reason where the connection's own age, idle time and end tell it. It is unknown for a pool's close if none of its
// connections was ever made for a caller, for connections that a hook of the program's refuses or that are released in the middle of
// something (Close.Err then says so), and for those that the program closes itself, database/sql's among them.
//
// # Operations
//
// pgx's Query returns before the server answers, and its tracer tells only the end, at Rows.Close. An operation's first response is the read
// that answered what it wrote last, seen below TLS; where that is not known (after an error that is not the server's, for a CopyFrom, and
// where pgx reads ahead after a write that took it more than 15 ms) it is the end. The exchanges seen there are Operation.Turns: a statement that pgx prepares first is part of the operation that needs it, and one
// of them. The time for that is Operation.Preparing, and Operation.Prepared says whether pgx keeps the statement. To a tracer all of Query,
// QueryRow and Exec are queries; the statements that a Tx sends are profiler.OpBegin, OpCommit and OpRollback, also where a program sends
// exactly the same. What runs on a PgConn alone (Ping, a Pipeline) is no operation.
package pgxprof

// Package pool times what happens on a connection after it was dialed, and ties it to how the connection was made. It answers one question:
// what did the caller wait for, and was the connection new or reused?
//
// For database/sql a [Connector] wraps the driver's: it makes the profiler.Conn, carries it to the dialer in Connect's context, and hands
// out the driver's connection in a wrapper that times operations. The wrapper has exactly those optional interfaces whose presence
// changes what database/sql does, and returns the driver's own errors and results. [Wrap] puts a [DB] around *sql.DB that stamps each
// call, so that a query's wait for its connection is known; of a plain *sql.DB only the pool's total is known, from sql.DBStats.
//
// A dead connection that database/sql replaces is an attempt of the operation that met it, not an error (retry.go). Why the pool closed a
// connection follows from its own history and from the counters of sql.DBStats (closes.go). The time of rows is told apart into the driver's
// and the caller's (pace.go). What is not seen: the waits of callers who gave up before they had a connection, other than in the pool's
// total; and why a connection was closed when SetMaxOpenConns was lowered, which no counter tells.
//
// For MongoDB a [CMAP] takes the events of the connection monitoring and pooling specification and the dials of one client.
//
// The package knows no driver and no network: packages mysqlprof, mongoprof, mongov2prof and pgxprof join it with both.
package pool

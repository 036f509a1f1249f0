// Package embedded starts real database servers inside the process, so that an example runs with nothing installed but Go:
// a MySQL server ([StartMySQL], dolthub/go-mysql-server) and a server of the MongoDB wire protocol ([StartMongo],
// FerretDB with SQLite in memory). Both listen on loopback, speak with TLS off and on, hold the same [Rows] rows, and
// leave neither a goroutine nor a file behind when they are closed.
//
// They are good for the life of connections: their handshakes, logins and round trips are those of the real protocols.
// They are no measure of a production server's query times. The MySQL table is read-only.
//
// go-mysql-server logs through logrus's standard logger, which this package silences for the whole process. FerretDB
// starts spans on the global tracer provider: a program that sets one will find FerretDB's spans among its own.
package embedded

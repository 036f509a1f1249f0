// Package mongotest answers one question for tests: what does a MongoDB client do on the wire, connection by connection?
//
// It is a small scripted server that the real drivers (go.mongodb.org/mongo-driver 1.17 and 2.x) connect to over TCP or a unix
// socket, with or without TLS and SCRAM-SHA-256. It keeps what is inserted in memory, gives every connection a connectionId of its
// own, which drivers report as the ServerConnectionID of a command, and keeps a log of all connections, so that a test can check
// what a profiler attributed to which connection. A Script delays, fails or replaces any reply.
//
// It does not try to be a database: no indexes, updates, deletes, sorting, projections, transactions, change streams or
// compression. Commands, filters and stages that it does not know it refuses with the error code of a MongoDB server, rather than
// ignore them.
package mongotest

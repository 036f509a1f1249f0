// Package profiler is the model that connprof's instrumentation fills in and its exporters read: connections, the phases of their
// making, the operations that run on them, and the series, reports and timelines made of these. It answers one question: where did
// the time of a database client go?
//
// A program makes one [Profiler] (the zero value is ready), hands it to the one-line adoption of its driver (packages
// pool/mysqlprof, pool/mongoprof, pool/mongov2prof, pool/pgxprof), and reads [Profiler.Report], or gives it Sinks that see every event.
//
// The words are those of the CMAP specification, database/sql, RFC 8446 and OpenTelemetry's semantic conventions. [Phase] lists the
// parts of a create and where each begins and ends; [Measure] adds what is measured of the connection and of the caller.
//
// The package imports the standard library only. It watches nothing by itself: package handshake watches the wire, package pool the
// pools and drivers, and both meet in a [Conn] that travels in a context.
package profiler

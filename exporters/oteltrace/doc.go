// Package oteltrace is a profiler.Sink that tells OpenTelemetry what a connection's time went into: one span for each operation, one for
// the making of each connection with its phases as children, one for a wait that was long. It answers one question: why was this request
// slow? It uses the OpenTelemetry API only; which SDK, sampler and exporter stand behind it is the program's choice.
//
//	p := &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp)}}
//
// # Spans
//
// Spans are made afterwards, with explicit times from one anchor a connection. If the wall clock was stepped since, and the parent tells
// when it started (the SDK's spans do), they are moved as a whole onto its clock.
//
// Under the caller's span hang up to three children, in this order:
//
//	GET /orders                          the caller's own span
//	├─ wait_for_connection     INTERNAL  the caller waited, longer than Sink.WaitThreshold; ends where the create starts
//	├─ connection_setup db:3306 INTERNAL the create, with one child per phase present: resolve, connect, greet, tls, auth, ...
//	└─ query shop              CLIENT    the operation, start to rows closed; linked to connection_setup
//
// A connection's span is a child of the caller's span if the create ran under the caller's context, or if its first user is known to have
// asked before the create began. Otherwise it is a root, because it would start before its parent. A create that ran in the background
// waits for its first operation to tell; without one it becomes a root at its close, at the first event 10 s later, or at Flush.
// The phase "other" has no span: it is what the children leave open. A failed create is a span in error, and so is its failed phase.
//
// Every query span links to its connection's span if that was sampled, never the other way: a connection may serve millions of queries.
// What the link says stands in attributes too, because many viewers don't follow links.
//
// # Sampling
//
// Under a span that is not sampled nothing is built, and recording costs no allocation. An operation without any span above it becomes a
// root span, as the semantic conventions have it: the provider's sampler decides, at the price of asking it (Sink.ParentOnly leaves these
// out). A wait without a span above it is an attribute only.
//
// Connections that serve no caller (monitoring, cancel requests, unattributed dials) are left out unless Sink.Monitors is set, and are
// roots then: a driver makes them by itself, and a trace of each would bury the others.
//
// # Attributes
//
// Names are those of the semantic conventions (the version is in semconv.go) where they exist. On query spans: db.system.name,
// db.namespace, db.operation.name, server.address, server.port, network.peer.address, network.peer.port, error.type, and db.query.text
// if Sink.QueryText is set. On connection spans also network.transport, db.client.connection.pool.name and, on it and on its tls child,
// tls.protocol.name, tls.protocol.version, tls.cipher, tls.curve, tls.resumed; dns.question.name on resolve. Each connect that was lost is
// an event attempt_lost on the phase attempts.
// error.type is "timeout", "canceled" or the type of the driver's error.
//
// Our own begin with connprof. Durations are seconds; what is not known is left out, never 0:
//
//	connprof.connection.id            the connection's number in its Profiler, as a string
//	connprof.connection.reused        query: false for the first operation on its connection
//	connprof.connection.idle          query, reused: how long the connection was unused before
//	connprof.connection.create        query, first: how long the connection took to make
//	connprof.connection.tls.duration  query, connection: what TLS took on this connection, 0 if it has none
//	connprof.query.index              query: its index on its connection, from 1
//	connprof.query.first_response     query: start to first response
//	connprof.query.turns              query: awaited round trips
//	connprof.tls.amortized            query: connprof.connection.tls.duration / connprof.query.index
//	connprof.wait, connprof.queued    query: the caller's wait, and its part not spent on the create it waited for
//	connprof.phase.<phase>            query, first: what each phase of its connection's create took (auth_setup for auth+setup)
//	connprof.tls.hello_retry          connection, tls: the server asked for a second ClientHello
//	connprof.tcp.rtt                  connection: the kernel's round-trip time right after connect
//	connprof.tcp.retransmits          connection: retransmitted segments up to hand-over
//	connprof.create.background        connection: no caller's context; the pool made it by itself
//	connprof.create.partial           connection: true where nothing told when the driver began or took over
//	connprof.create.failed_phase      connection, failed: the phase it failed in
//	connprof.resolve.answers          resolve: addresses in the answer
//	connprof.resolve.lookups          resolve: look-ups that one create made
//	connprof.attempt.reached          attempt_lost: the phase it got to
//	connprof.attempt.duration         attempt_lost: how long it took
//	connprof.role, connprof.role.kind connection, other than the pool's: what it was for
//
// Error texts appear nowhere: drivers quote values in them. The description of a failed create's status says the outcome, the phase and
// what to check.
//
// # Storms
//
// A thousand connections at once are a thousand traces of eight spans, more than a batch processor's default queue (2,048) holds: it drops
// the rest, the queries' spans included. Sink.MaxConnectionTraces bounds connection traces; Dropped counts what was not emitted. Size the
// queue (WithMaxQueueSize) for about ten spans a connection times the connections of a second.
//
// # Shutdown
//
// Close the pools, then call Profiler.Flush, Sink.Flush and the provider's Shutdown, in this order.
package oteltrace

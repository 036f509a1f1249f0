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
//	└─ SELECT orders           CLIENT    the operation, start to rows closed; linked to connection_setup
//
// With MongoDB a server_selection (INTERNAL) may come first: the driver was choosing a server for longer than Sink.WaitThreshold. A client that
// has just started waits there for its first heartbeat, which makes a connection of its own. It takes profiler.Asked to know.
//
// A connection's span is a child of the caller's span if the create ran under the caller's context, or if its first user is known to have
// asked before the create began. Otherwise it is a root, because it would start before its parent. A create that ran in the background
// waits for its first operation to tell; without one it becomes a root at its close, at the first event 10 s later, or at Flush.
// The wait_for_connection of a caller who gave up waiting, or was refused, is in error and stands alone, however short it was: what it waited for
// (others, or a create that goes on without it) is not known. pgxpool's callers and those of a pool.DB have it; a MongoDB driver does not tell
// whose wait it was, and metrics alone count it. The phase "other" has no span: it is what the children leave open. A failed create is a span in error, and so is its failed phase.
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
// # Programs that have query spans already
//
// Sink.Queries leaves the query spans out and tells the same on the span in the operation's context, at its first response. Under a wrapper of
// database/sql that makes spans, such as github.com/XSAM/otelsql, that is the wrapper's span if our Connector is the inner one
// (otelsql.OpenDB(mysqlprof.Connector(...))); with a tracer of pgx such as otelpgx in the configuration that is instrumented, it is the
// tracer's. MongoDB's otelmongo puts its span into no context: a command can only be an event on the caller's span. Waits then have no span.
// A *sql.DB that another wrapper opened is not watched by itself: pool.WatchDB has its counters in reports and metrics.
//
// # Names
//
// A query span is named after db.query.summary ("SELECT orders"), which is read from the text: what is done, and to which tables. Without a
// text that tells it is "{db.operation.name} {target}", the target being the collection, the namespace or the server. Preparing a statement
// has a span only if it failed, or if Sink.Prepares is set; pings, resets and rows have none.
//
// # Attributes
//
// Names are those of the semantic conventions (the version is in semconv.go) where they exist. On query spans: db.system.name,
// db.namespace, db.query.summary, db.operation.name, db.collection.name, server.address, server.port, network.peer.address,
// network.peer.port, db.response.status_code, error.type, and db.query.text if Sink.QueryText is set. Operation and collection are MongoDB's
// own; of a text they are given where it has exactly one. A MongoDB command's collection is known where its reply names it, and always with
// profiler.Profiler.Statements. On connection spans also network.transport, db.client.connection.pool.name and, on it and on its tls child,
// tls.protocol.name, tls.protocol.version, tls.cipher, tls.curve, tls.resumed; dns.question.name on resolve. Each connect that was lost is
// an event attempt_lost on the phase attempts.
//
// db.response.status_code is PostgreSQL's SQLSTATE, and MySQL's and MongoDB's error number (version 1 of the MongoDB driver doesn't tell).
// error.type is "timeout" or "canceled", else that code, else of a create its profiler.ErrorClass ("refused", "unknown_authority") and of an
// operation the type of the driver's error.
//
// db.query.text has ? for every literal, comments are left out, and where only the server's settings tell what is a literal it ends in "...".
// Double quotes hold a name in PostgreSQL only: elsewhere they may hold a string, and what is in them is shown nowhere.
// At most the first 4,096 bytes are read.
//
// Our own begin with connprof. Durations are seconds; what is not known is left out, never 0:
//
//	connprof.connection.id            the connection's number in its Profiler, as a string
//	connprof.connection.reused        query: false for the first operation on its connection
//	connprof.connection.idle          query, reused: how long the connection was unused before
//	connprof.connection.create        query, first: how long the connection took to make
//	connprof.connection.tls.duration  query, connection: what TLS took on this connection, 0 if it has none
//	connprof.query.index              query: its index on its connection, from 1
//	connprof.query.first_response     query: start to first response; the rest of the span is its rows
//	connprof.query.rows.driver        query: of the time for rows, what the driver took (network, decoding),
//	connprof.query.rows.consumer      query: and what the program took between its calls for rows
//	connprof.query.turns              query: awaited round trips
//	connprof.query.sent               query: bytes that went over the network for it, under TLS as they were encrypted,
//	connprof.query.received           query: and bytes that came back; both where a handshake.Dialer made the connection
//	connprof.query.attempts           query: on how many connections it was tried, or how often the driver repeated it
//	connprof.query.lost               query: what earlier attempts took, before the span
//	connprof.query.stale_idle         query: how long the dead connection had been idle that it met first
//	connprof.query.selection          query: what choosing a MongoDB server took, before the wait
//	connprof.query.prepared           query: once (a statement was prepared for this call), before (by the caller), kept (by the driver)
//	connprof.tls.amortized            query: connprof.connection.tls.duration / connprof.query.index
//	connprof.wait, connprof.queued    query: the caller's wait, and its part not spent on the create it waited for
//	connprof.waited_for               query: free (a connection that was there), create (its own), background_create (the pool's)
//	connprof.phase.<phase>            query, first: what each phase of its connection's create took (auth_setup for auth+setup)
//	connprof.tls.hello_retry          connection, tls: the server asked for a second ClientHello
//	connprof.tcp.rtt                  connection: the kernel's round-trip time right after connect
//	connprof.tcp.retransmits          connection: retransmitted segments up to hand-over
//	connprof.create.background        connection: no caller's context; the pool made it by itself
//	connprof.create.partial           connection: true where nothing told when the driver began or took over
//	connprof.create.failed_phase      connection, failed: the phase it failed in
//	connprof.resolve.answers          resolve: addresses in the answer
//	connprof.resolve.lookups          resolve: look-ups that one create made
//	connprof.auth.turns               auth, auth+setup: request/response exchanges of the login
//	connprof.auth.wait                auth, auth+setup: the part spent waiting for the server; the rest is computing
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
// the rest silently, the queries' spans included; of a storm of 2,000 connections it lost 63 %. Sink.MaxConnectionTraces bounds the
// connections that are shown in a second, 100 if it is zero, and Dropped counts those that were not. Their queries say all the same what the
// connection cost them.
//
// Size the queue for the spans of the busiest second: queries a second + 10 × the connections that are shown in it, and the batch for an
// eighth of that. With 1,000 queries a second and the default bound 2,048 just suffices; for 500 connections a second
//
//	sink.MaxConnectionTraces = 500
//	trace.NewBatchSpanProcessor(exporter, trace.WithMaxQueueSize(8192), trace.WithMaxExportBatchSize(1024))
//
// # Shutdown
//
// Close the pools, then call Profiler.Flush, Sink.Flush and the provider's Shutdown, in this order.
package oteltrace

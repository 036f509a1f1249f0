// Package otelmetric hands what a Profiler counted to OpenTelemetry's metrics. It answers one question: how are the connections of this
// process, and of a fleet of them, doing? It records nothing itself: a Producer reads the Profiler's own counters and histograms when a
// reader collects, so that metrics add nothing to the price of a query or a connection. Of the SDK it imports metricdata only; which reader
// and exporter stand behind it is the program's choice.
//
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(otelmetric.New(p)))
//	provider := metric.NewMeterProvider(metric.WithReader(reader))
//
// That is all there is to set up; the provider's Shutdown undoes it. Producer.Stop does where the reader goes on without the Profiler. A
// Producer serves one reader. The SDK's views and cardinality limits do not reach what a Producer hands over, and a reader's temporality
// and aggregation don't either: they are fields here.
//
// Where views are wanted, connection metrics can be instruments of the provider; the durations of operations, and of waits and uses, stay the
// Producer's, since an SDK's histogram costs twenty times as much for each:
//
//	producer.WithoutConnections = true
//	stop, err := otelmetric.Register(p, provider) // a create then costs a few microseconds more
//
// # Metrics
//
// Those that the semantic conventions name (the version is in semconv.go); those of connections have db.client.connection.pool.name:
//
//	name                                  kind           unit          further attributes
//	db.client.operation.duration          histogram      s             start to rows closed; db.system.name, db.namespace, server.address,
//	                                                                   server.port, error.type
//	db.client.connection.create_time      histogram      s             creates that ended well                                        R
//	db.client.connection.wait_time        histogram      s             known waits for a connection, its create included
//	db.client.connection.use_time         histogram      s             checkout to return
//	db.client.connection.count            up-down        {connection}  db.client.connection.state: used, idle                         R
//	db.client.connection.max              up-down        {connection}  absent for a pool without a limit                              R
//	db.client.connection.idle.max         up-down        {connection}  absent where the pool doesn't tell                             R
//	db.client.connection.idle.min         up-down        {connection}  absent where the pool doesn't tell                             R
//	db.client.connection.pending_requests up-down        {request}     callers who wait; absent where neither pool nor Wrap tells     R
//	db.client.connection.timeouts         counter        {timeout}     waits that ended with a deadline; absent as the one before     R
//
// Our own; those marked E have the attributes of the endpoint and of what the connection is for: db.system.name, db.namespace,
// server.address, server.port, connprof.role (pool, monitor, cancel, other, unattributed) and for the role pool
// db.client.connection.pool.name:
//
//	connprof.connection.phase.duration  E  histogram  s             connprof.phase: resolve, connect, tls, auth, ...; connprof.outcome R
//	connprof.query.duration             E  histogram  s             start to first response; connprof.connection.reused: false for the
//	                                                                first on its connection; connprof.outcome
//	connprof.query.rows.duration        E  histogram  s             first response to rows closed; connprof.outcome
//	connprof.connection.dials           E  counter    {connection}  of a create that failed connprof.create.failed_phase and        R
//	                                                                error.type, a profiler.ErrorClass: refused, rejected, ...
//	connprof.connection.closed          E  counter    {connection}  connprof.close.reason: idle_limit, lifetime, error, ...           R
//	connprof.connection.stale           E  counter    {connection}  found dead when a caller was to have them                         R
//	connprof.tls.handshakes             E  counter    {handshake}   tls.protocol.version, tls.resumed, connprof.tls.hello_retry (the  R
//	                                                                server asked for a second ClientHello)
//	connprof.tls.resumptions.refused    E  counter    {handshake}   a session was offered and not taken                               R
//	connprof.dropped                       counter    {item}        connprof.dropped.kind: endpoint, connection, close, sink, operation     R
//	connprof.sink.panics                   counter    {panic}                                                                         R
//
// R marks what Register makes instruments of. connprof.outcome is ok, error, canceled or timeout; an operation's error.type is timeout,
// canceled or _OTHER, absent for one that ended well. The pool's name is Endpoint.Pool, else Endpoint.Address, the name that a watched pool
// is reported under; pools of one name are added up. Count and limits come from pools that are watched: those of database/sql and MongoDB are
// by themselves, a pgxpool is with pgxprof.Watch. Who waits and who timed out is known of MongoDB's and pgx's (time-outs also of a
// pgxpool that is not watched); database/sql tells neither.
//
// # Bounds
//
// Every attribute has few values: those of at most Profiler.MaxEndpoints endpoints (one "(other)" a system holds the rest) and of 300 pool
// names, or those of a fixed list. There are no connection numbers, client ports, query texts or error texts. An endpoint has at most some
// hundred points; a MySQL pool over TLS that does well has about seventeen.
//
// # Histograms
//
// Buckets are explicit unless Producer.MaxSize is set. The Profiler's own are base-2 exponential at scale 4 (each 4.4 % wider than the one
// before) from 2^-20 s, 0.95 µs, to 256 s. With MaxSize they are handed over as they are, bucket for bucket what the SDK's own histogram
// has at that scale; what is shorter is in the zero count, what is longer in the first bucket above. With explicit buckets, a duration within
// profiler.RelativeError (2.2 %) of a boundary may be counted on its other side. Count and sum are exact always. Minimum and maximum are
// exact where they are given: a delta has them only for what had no sample before its interval.
//
// Exponential histograms of many processes merge without loss. Prometheus takes them as native histograms, by its protobuf scrape only.
//
// # Exemplars
//
// Exemplars is a Sink that keeps a few examples of sampled traces for connprof.query.duration and db.client.operation.duration. It is for programs that have a Sink anyway,
// such as oteltrace's.
//
//	var x otelmetric.Exemplars
//	p := &profiler.Profiler{Sinks: []profiler.Sink{oteltrace.New(tp), &x}}
//	m := otelmetric.New(p)
//	m.Exemplars = &x
package otelmetric

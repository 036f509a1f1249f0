// Package mongoprof adopts connprof for go.mongodb.org/mongo-driver 1.17. It answers one question: how does a client of that driver get
// profiled without a change to its code? Package mongov2prof does the same for go.mongodb.org/mongo-driver/v2.
//
//	var p profiler.Profiler
//	client, err := mongo.Connect(ctx, mongoprof.Instrument(&p, options.Client().ApplyURI(uri)))
//
// It reports each connection of the pools with the phases of its making (resolve, connect, tls, verify, hello, auth), the driver's
// monitoring connections apart from them (role monitor, kind heartbeat or rtt), and each command as the first on its connection or a
// later one, with the caller's wait. Not seen are server selection (the caller's wait for the first heartbeat included), the SRV and TXT
// look-ups of mongodb+srv, and which commands belong to one retried operation: each is reported by itself.
package mongoprof

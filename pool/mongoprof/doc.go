// Package mongoprof adopts connprof for go.mongodb.org/mongo-driver 1.17. It answers one question: how does a client of that driver get
// profiled without a change to its code? Package mongov2prof does the same for go.mongodb.org/mongo-driver/v2.
//
//	var p profiler.Profiler
//	client, err := mongo.Connect(ctx, mongoprof.Instrument(&p, options.Client().ApplyURI(uri)))
//
// It reports each connection of the pools with the phases of its making (resolve, connect, tls, verify, hello, auth), the driver's
// monitoring connections apart from them (role monitor, kind heartbeat or rtt), and each command as the first on its connection or a
// later one, with the caller's wait. A read that the driver repeats after a network error is one operation with its attempts. What choosing
// a server took (the wait for the first heartbeat included) is known of operations whose context comes from profiler.Asked, what the SRV
// and TXT look-ups of mongodb+srv took of clients made by Connect. Repeated writes and aggregates are reported attempt by attempt, because
// nothing tells that they are one.
package mongoprof

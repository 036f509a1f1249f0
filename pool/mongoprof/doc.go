// Package mongoprof adopts connprof for go.mongodb.org/mongo-driver 1.17. It answers one question: how does a client of that driver get
// profiled without a change to its code? Package mongov2prof does the same for go.mongodb.org/mongo-driver/v2.
//
//	var p profiler.Profiler
//	client, err := mongo.Connect(ctx, mongoprof.Instrument(&p, options.Client().ApplyURI(uri)))
//
// It reports each connection of the pools with the phases of its making (resolve, connect, tls, verify, hello, auth), the driver's
// monitoring connections apart from them (role monitor, kind heartbeat or rtt), and each command as the first on its connection or a
// later one, with the caller's wait. What choosing a server took (the wait for the first heartbeat included) is known of operations whose
// context comes from profiler.Asked, what the SRV and TXT look-ups of mongodb+srv took of clients made by Connect.
//
// A read that the driver repeats is one operation with its attempts, which shows when the driver is done with it. Whether it repeated a
// write shows only in the start of a command, for which the driver copies each command: Profiler.Statements asks for that, and a Started
// in the client's own monitor has the same effect. Otherwise, and for aggregates and for reads in a session of the caller's, an attempt
// that failed and the one that perhaps repeats it are two operations, both with 0 attempts, which means unknown.
package mongoprof

// Package bench brings connection costs into Go benchmarks and tests: what making a connection costs, what the first query on it costs and
// what a reused one, and how often connections are reused. It answers one question: did this change break connection reuse?
//
//	func BenchmarkOrders(b *testing.B) {
//		p := bench.Profiler(b)
//		db, err := mysqlprof.Open(p, dsn)
//		...
//		for b.Loop() {
//			...
//		}
//	}
//
//	func TestOrdersReuseConnections(t *testing.T) {
//		var p profiler.Profiler
//		...
//		bench.RequireReuse(t, &p, 0.95)
//	}
package bench

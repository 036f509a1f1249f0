// Package postgrestest gives tests a private PostgreSQL server: its own data folder, a free loopback port and a unix socket, TLS with
// certificates made at start, SCRAM-SHA-256 for its user.
//
// Start returns the one server of the test process and starts it if it is the first to ask; a package whose tests use it says so in its
// TestMain:
//
//	func TestMain(m *testing.M) { postgrestest.Main(m) }
//
// Where no PostgreSQL is installed the tests that ask for it skip, and fail where CONNPROF_REQUIRE_SERVERS is 1.
//
// Nothing is left behind, not even by a test process that dies: see package servertest. Where the tests run as root the server does not:
// it runs as the user postgres, or nobody.
package postgrestest

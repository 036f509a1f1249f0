// Package mysqlprof profiles the connections of github.com/go-sql-driver/mysql. Adoption is one line:
//
//	db, err := mysqlprof.Open(&p, dsn)
//
// instead of sql.Open("mysql", dsn). The *sql.DB behaves as before, errors and liveness checks included; only a type assertion on the
// driver's connection inside sql.Conn.Raw needs pool.Unwrap.
//
// A network of its own name registered with mysql.RegisterDialContext can't be seen: such a connector is left alone, and its creates are one
// block. A dialer registered over the name tcp or unix is not used, and neither is a registered network that BeforeConnect chooses (the
// create then fails and says so), because the driver tells nobody of them: set Config.DialFunc to the dialer, which is chained. The driver's own statements before hand-over (max_allowed_packet, SET NAMES, session variables) are profiler.Setup.
package mysqlprof

package oteltrace

import (
	"strings"
	"testing"
)

func TestSummaries(t *testing.T) {
	for _, tt := range []struct {
		d                              dialect
		text                           string
		summary, operation, collection string
	}{
		{mysqlSQL, "SELECT * FROM orders WHERE id = ?", "SELECT orders", "SELECT", "orders"},
		{mysqlSQL, "select a.x from Shop.`order items` a, `b` c left join d on a.x = d.x where y in (select z from e)",
			"SELECT Shop.order items b d SELECT e", "", ""},
		{postgresSQL, `SELECT "id" FROM public."Users" u WHERE name = 'x'`, "SELECT public.Users", "SELECT", "public.Users"},
		{postgresSQL, "INSERT INTO shipping_details SELECT order_id, address FROM orders WHERE order_id = 1", // semconv's own example
			"INSERT shipping_details SELECT orders", "", ""},
		{mysqlSQL, "INSERT IGNORE INTO t (a, b) VALUES (1, 2), (3, 4) ON DUPLICATE KEY UPDATE a = VALUES(a)", "INSERT t", "INSERT", "t"},
		{postgresSQL, "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET b = 1 RETURNING id", "INSERT t", "INSERT", "t"},
		{mysqlSQL, "UPDATE t SET a = REPLACE(a, 'x', 'y') WHERE b = 1", "UPDATE t", "UPDATE", "t"},
		{mysqlSQL, "SELECT * FROM t WHERE a = 1 FOR UPDATE", "SELECT t", "SELECT", "t"},
		{mysqlSQL, "DELETE FROM t WHERE id = 4", "DELETE t", "DELETE", "t"},
		{mysqlSQL, "SELECT EXTRACT(YEAR FROM born) FROM people WHERE a IS DISTINCT FROM b", "SELECT people", "SELECT", "people"},
		{postgresSQL, "WITH a AS (SELECT 1 FROM x), b AS (DELETE FROM y RETURNING *) UPDATE z SET a = 1", "SELECT x DELETE y UPDATE z", "", ""},
		{postgresSQL, "WITH a AS (SELECT 1 FROM x) UPDATE z SET a = 1", "SELECT x UPDATE z", "", ""},
		{mysqlSQL, "(SELECT a FROM t) UNION (SELECT b FROM t)", "SELECT t SELECT t", "", ""},
		{mysqlSQL, "SELECT 1", "SELECT", "SELECT", ""},
		{mysqlSQL, "SELECT a FROM t; DELETE FROM u", "SELECT t DELETE u", "", ""},
		{mysqlSQL, "CREATE TABLE IF NOT EXISTS t (a INT, b VARCHAR(20))", "CREATE TABLE t", "CREATE", "t"},
		{postgresSQL, "CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)", "CREATE INDEX i", "CREATE", "i"},
		{mysqlSQL, "DROP TABLE t", "DROP TABLE t", "DROP", "t"},
		{mysqlSQL, "TRUNCATE TABLE t", "TRUNCATE t", "TRUNCATE", "t"},
		{mysqlSQL, "CALL shop.ship(?, ?)", "CALL shop.ship", "CALL", "shop.ship"},
		{mysqlSQL, "SET NAMES utf8mb4", "SET", "SET", ""},
		{mysqlSQL, "SHOW TABLES FROM shop", "SHOW", "SHOW", ""},
		{postgresSQL, "begin isolation level serializable", "BEGIN", "BEGIN", ""},
		{mysqlSQL, "EXPLAIN SELECT * FROM t", "EXPLAIN SELECT t", "", ""},
		{mysqlSQL, "/* by: bob */ SELECT /* x */ a -- from b\nFROM t", "SELECT t", "SELECT", "t"},
		{postgresSQL, "SELECT a FROM ONLY t, LATERAL (SELECT b FROM u) x, v", "SELECT t SELECT u v", "", ""},
		{postgresSQL, "DO $$ BEGIN DELETE FROM t; END $$", "DO", "DO", ""},
		{mysqlSQL, "SELECT * FROM a, b, a c", "SELECT a b a", "SELECT", ""},
		{mysqlSQL, `SELECT * FROM shop."orders"`, "SELECT", "SELECT", ""}, // a name by sql_mode
		{otherSQL, `SELECT * FROM t WHERE a = "hunter2"`, "SELECT t", "SELECT", "t"},
		{postgresSQL, "SELECT * FROM ü\xff", "SELECT ü", "SELECT", "ü"}, // an exporter refuses what is not UTF-8
		{postgresSQL, "SELECT * FROM t, " + strings.Repeat("u", maxSummary), "SELECT t", "", ""},
		{mysqlSQL, "hunter2", "", "", ""},
		{mysqlSQL, "", "", "", ""},
		{mysqlSQL, `SELECT * FROM "hunter2" WHERE a`, "SELECT", "SELECT", ""},
		{otherSQL, "SELECT TOP 5 [name] FROM [dbo].[t] WHERE a = @p1", "SELECT dbo.t", "SELECT", "dbo.t"},
	} {
		r := summarise(tt.d, tt.text)
		if r.summary != tt.summary || r.operation != tt.operation || r.collection != tt.collection {
			t.Errorf("%s\n got %q %q %q\nwant %q %q %q", tt.text, r.summary, r.operation, r.collection, tt.summary, tt.operation, tt.collection)
		}
	}
}

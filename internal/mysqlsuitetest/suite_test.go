package mysqlsuitetest

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/suitetest"
)

func TestMain(m *testing.M) { mariadbtest.Main(m) }

// skipped dials a public address.
const skipped = "^TestConnectorReturnsTimeout$"

// The last line that TestSuite prints is what make suite-mysql shows and goes by.
func TestSuite(t *testing.T) {
	if os.Getenv("CONNPROF_SUITE") == "" {
		t.Skip("runs the driver's tests three times: CONNPROF_SUITE=1, or make suite-mysql")
	}
	s := mariadbtest.Start(t)
	env := account(t, s)
	plain := source(t, false)
	unwrapping := source(t, true)
	compiled := func(dir, name string) suitetest.Suite {
		return suitetest.Suite{Bin: build(t, dir, name), Env: env, Skip: skipped}
	}
	bare, keep, wrapped := compiled(plain, ""), compiled(plain, "connprof-keep"), compiled(unwrapping, "connprof-wrapped")

	b := bare.Run(t, "")
	if len(b) < 100 || b["TestPing"] == "SKIP" {
		t.Fatalf("only %d tests ran, TestPing: %s", len(b), b["TestPing"])
	}
	k, w := keep.Run(t, ""), wrapped.Run(t, "")
	b.Show("bare")
	differences := suitetest.Compare(t, "KeepConn", bare, b, keep, k) + suitetest.Compare(t, "wrapped", bare, b, wrapped, w)
	k.Show("KeepConn")
	w.Show("wrapped")
	fmt.Printf("suite-mysql: bare %s wrapped %s differences %d\n", b.Counts(), w.Counts(), differences)
	if differences > 0 {
		t.Fail()
	}
}

// account makes a user and a database for the suite, and gives the environment that names them.
func account(t *testing.T, s *mariadbtest.Server) []string {
	t.Helper()
	db, err := sql.Open("mysql", s.RootConfig().FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"CREATE DATABASE gotest", "CREATE USER suite@'%' IDENTIFIED BY 'suite'", "GRANT ALL ON *.* TO suite@'%' WITH GRANT OPTION",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "MYSQL_TEST_USER=suite", "MYSQL_TEST_PASS=suite", "MYSQL_TEST_ADDR="+s.Addr, "MYSQL_TEST_CONCURRENT=1")
}

var _ = mysql.MySQLDriver{} // the version that is tested is the one of go.mod

// source is a copy of the driver's module, with a test file that registers the profiled drivers. In one that unwraps, the two tests that
// assert the driver's own connection inside sql.Conn.Raw ask pool.Unwrap for it, as users who do so must.
func source(t *testing.T, unwrap bool) string {
	t.Helper()
	dir := suitetest.Copy(t, "github.com/go-sql-driver/mysql", func(name string, b []byte) []byte {
		switch {
		case filepath.Dir(name) != ".":
			return nil
		case name == "driver_test.go" && unwrap:
			return unwrapped(t, b)
		}
		return b
	})
	b, err := os.ReadFile("testdata/connprof_test.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	suitetest.Write(t, filepath.Join(dir, "connprof_test.go"), b)
	return dir
}

func unwrapped(t *testing.T, b []byte) []byte {
	t.Helper()
	n := 0
	for from, to := range map[string]string{
		"c := conn.(*mysqlConn)":      "c := pool.Unwrap(conn).(*mysqlConn)",
		"qr := conn.(driver.Queryer)": "qr := pool.Unwrap(conn).(driver.Queryer)",
		"\t\"database/sql/driver\"\n": "\t\"database/sql/driver\"\n\t\"github.com/connprof/connprof/pool\"\n",
	} {
		n += bytes.Count(b, []byte(from))
		b = bytes.ReplaceAll(b, []byte(from), []byte(to))
	}
	if n != 4 {
		t.Fatalf("%d places changed in driver_test.go, want 4: look at what the new version asserts", n)
	}
	return b
}

// build compiles the tests in dir for the driver of the given name, the driver's own for "".
func build(t *testing.T, dir, name string) string {
	t.Helper()
	flags := "-X github.com/go-sql-driver/mysql.driverNameTest=" + name
	if name == "" {
		flags = ""
	}
	return suitetest.Build(t, dir, ".", flags)
}

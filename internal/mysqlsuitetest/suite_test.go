package mysqlsuitetest

import (
	"bufio"
	"bytes"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/mariadbtest"
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
	bare := suite{build(t, plain, ""), env}
	keep := suite{build(t, plain, "connprof-keep"), env}
	wrapped := suite{build(t, unwrapping, "connprof-wrapped"), env}

	b := bare.run(t, "")
	if len(b) < 100 || b["TestPing"] == "SKIP" {
		t.Fatalf("only %d tests ran, TestPing: %s", len(b), b["TestPing"])
	}
	k, w := keep.run(t, ""), wrapped.run(t, "")
	show("bare", b)
	differences := compare(t, "KeepConn", bare, b, keep, k) + compare(t, "wrapped", bare, b, wrapped, w)
	show("KeepConn", k)
	show("wrapped", w)
	fmt.Printf("suite-mysql: bare %s wrapped %s differences %d\n", counts(b), counts(w), differences)
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
	root := command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}")
	from := command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/go-sql-driver/mysql")
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the driver's module at %s: %v", from, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a folder
		}
		if name := filepath.Base(f); name == "go.mod" {
			b = fmt.Appendf(b, "\nrequire github.com/connprof/connprof v0.0.0\n\nreplace github.com/connprof/connprof => %s\n", root)
		} else if name == "go.sum" {
			sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, sums...)
		} else if name == "driver_test.go" && unwrap {
			b = unwrapped(t, b)
		}
		write(t, filepath.Join(dir, filepath.Base(f)), b)
	}
	b, err := os.ReadFile("testdata/connprof_test.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "connprof_test.go"), b)
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

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// build compiles the tests in dir for the driver of the given name, the driver's own for "".
func build(t *testing.T, dir, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "suite")
	flags := "-X github.com/go-sql-driver/mysql.driverNameTest=" + name
	if name == "" {
		flags = ""
	}
	command(t, dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off"), "go", "test", "-c", "-vet=off", "-ldflags", flags, "-o", bin, ".")
	return bin
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// A suite is the driver's tests, compiled.
type suite struct {
	bin string
	env []string
}

// run runs the tests, all for "", and tells PASS, FAIL or SKIP by name, subtests included.
func (s suite) run(t *testing.T, only string) map[string]string {
	t.Helper()
	args := []string{"-test.v", "-test.timeout=5m", "-test.skip=" + skipped}
	if only != "" {
		args = append(args, "-test.run="+only)
	}
	cmd := exec.Command(s.bin, args...)
	cmd.Env, cmd.Dir = s.env, filepath.Dir(s.bin)
	out, err := cmd.CombinedOutput()
	results := make(map[string]string)
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line, ok := strings.CutPrefix(strings.TrimSpace(sc.Text()), "--- ")
		if f := strings.Fields(line); ok && len(f) >= 2 {
			results[f[1]] = strings.TrimSuffix(f[0], ":")
		}
	}
	if len(results) == 0 || bytes.Contains(out, []byte("\npanic: ")) {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out[max(0, len(out)-4000):])
	}
	return results
}

// compare counts the tests that went otherwise. Some of them depend on time: each is run twice more, alone, before it counts.
func compare(t *testing.T, name string, bare suite, b map[string]string, with suite, w map[string]string) int {
	t.Helper()
	for range 2 {
		for _, test := range differing(b, w) {
			only := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
			maps.Copy(b, bare.run(t, only))
			maps.Copy(w, with.run(t, only))
		}
	}
	d := differing(b, w)
	for _, test := range d {
		fmt.Printf("differs: %s: bare %q, %s %q\n", test, b[test], name, w[test])
	}
	return len(d)
}

func differing(b, w map[string]string) []string {
	var d []string
	for test := range b {
		if b[test] != w[test] {
			d = append(d, test)
		}
	}
	for test := range w {
		if _, ok := b[test]; !ok {
			d = append(d, test)
		}
	}
	slices.Sort(d)
	return d
}

// show lists what did not pass, of the tests that are no subtests.
func show(name string, results map[string]string) {
	fmt.Printf("%s: %s passed/failed/skipped", name, counts(results))
	for _, test := range slices.Sorted(maps.Keys(results)) {
		if results[test] != "PASS" && !strings.Contains(test, "/") {
			fmt.Printf("; %s %s", results[test], test)
		}
	}
	fmt.Println()
}

// counts are passed/failed/skipped, without subtests.
func counts(results map[string]string) string {
	n := make(map[string]int)
	for test, r := range results {
		if !strings.Contains(test, "/") {
			n[r]++
		}
	}
	return fmt.Sprintf("%d/%d/%d", n["PASS"], n["FAIL"], n["SKIP"])
}

package pgxsuitetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/internal/suitetest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

const module = "github.com/jackc/pgx/v5"

// packages are those with tests that connect. pgtype's are about the values inside rows, and left out.
var packages = []string{"pgconn", "pgxpool", "stdlib", "tracelog", "."}

// The last line that TestSuite prints is what make suite-pgx shows and goes by.
func TestSuite(t *testing.T) {
	if os.Getenv("CONNPROF_SUITE") == "" {
		t.Skip("runs pgx's tests twice: CONNPROF_SUITE=1, or make suite-pgx")
	}
	s := postgrestest.Start(t)
	dir := source(t)
	env := setUp(t, s, dir)
	bare, wrapped := make(suitetest.Results), make(suitetest.Results)
	differences := 0
	for _, pkg := range packages {
		bin := suitetest.Build(t, dir, "./"+pkg, "")
		b := suitetest.Suite{Bin: bin, Dir: filepath.Join(dir, pkg), Env: env}
		w, saw := b, filepath.Join(t.TempDir(), "saw")
		w.Env = append(env[:len(env):len(env)], "CONNPROF_SAW="+saw)
		began := time.Now()
		rb, rw := b.Run(t, ""), w.Run(t, "")
		fmt.Printf("%s: %v for both; connprof saw %s\n", pkg, time.Since(began).Round(time.Second), read(t, saw))
		differences += suitetest.Compare(t, "wrapped", b, rb, w, rw)
		maps.Copy(bare, prefixed(pkg, rb))
		maps.Copy(wrapped, prefixed(pkg, rw))
	}
	bare.Show("bare")
	wrapped.Show("wrapped")
	fmt.Printf("suite-pgx: bare %s wrapped %s differences %d\n", bare.Counts(), wrapped.Counts(), differences)
	if n := len(bare); n < 1000 {
		t.Errorf("only %d tests and subtests ran", n)
	}
	if differences > 0 {
		t.Fail()
	}
}

// prefixed tells the tests of one package from those of another.
func prefixed(pkg string, rs suitetest.Results) suitetest.Results {
	out := make(suitetest.Results)
	for test, r := range rs {
		out[strings.TrimPrefix(pkg+".", "..")+test] = r
	}
	return out
}

// hooks are put into pgx where connections and pools begin: files of the packages themselves can't import pgxprof, their external tests can.
// A hook changes the configuration in place, as if the test had instrumented it.
var hooks = map[string]struct{ at, hook, declare string }{
	"conn.go": {
		"func ConnectConfig(ctx context.Context, connConfig *ConnConfig) (*Conn, error) {\n",
		"\tif ConnectHook != nil {\n\t\tConnectHook(connConfig)\n\t}\n",
		"\nvar ConnectHook func(*ConnConfig)\n",
	},
	"pgxpool/pool.go": {
		"func NewWithConfig(ctx context.Context, config *Config) (*Pool, error) {\n",
		"\tif ConfigHook != nil {\n\t\tConfigHook(config)\n\t}\n",
		"\nvar ConfigHook func(*Config)\n",
	},
	"pgconn/pgconn.go": {
		"func ConnectConfig(ctx context.Context, config *Config) (*PgConn, error) {\n",
		"\tif ConnectHook != nil {\n\t\tconfig = ConnectHook(config)\n\t}\n",
		"\nvar ConnectHook func(*Config) *Config\n",
	},
}

// source is a copy of pgx with the hooks, and a test file in each package that sets them and comes last.
func source(t *testing.T) string {
	t.Helper()
	hooked := 0
	dir := suitetest.Copy(t, module, func(name string, b []byte) []byte {
		h, ok := hooks[filepath.ToSlash(name)]
		if !ok {
			return b
		}
		if name == "conn.go" { // what comes from a connection string goes the same way
			b = bytes.ReplaceAll(b, []byte("\treturn connect(ctx, connConfig)\n"), []byte("\treturn ConnectConfig(ctx, connConfig)\n"))
			b = bytes.Replace(b, []byte("\tconnConfig = connConfig.Copy()\n\n\treturn ConnectConfig("), []byte("\tconnConfig = connConfig.Copy()\n\n\treturn connect("), 1)
		}
		if bytes.Count(b, []byte(h.at)) != 1 {
			t.Fatalf("%s: no place for a hook: look at how the new version begins", name)
		}
		hooked++
		return append(bytes.Replace(b, []byte(h.at), []byte(h.at+h.hook), 1), h.declare...)
	})
	if hooked != len(hooks) {
		t.Fatalf("%d of %d hooks were put in", hooked, len(hooks))
	}
	common := read(t, "testdata/common_test.go.txt")
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		if pkg == "." {
			name = "pgx"
		}
		set := read(t, "testdata/connect_test.go.txt")
		switch pkg {
		case "pgconn":
			set = read(t, "testdata/pgconn_test.go.txt")
		case "pgxpool":
			set = read(t, "testdata/pgxpool_test.go.txt")
		}
		suitetest.Write(t, filepath.Join(dir, pkg, "zz_common_test.go"), []byte("package "+name+"_test\n\n"+common))
		suitetest.Write(t, filepath.Join(dir, pkg, "zz_connprof_test.go"), []byte("package "+name+"_test\n\n"+set))
	}
	return dir
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// setUp runs pgx's own set-up, and gives the environment that its tests look for.
func setUp(t *testing.T, s *postgrestest.Server, dir string) []string {
	t.Helper()
	root := login(t, s.RootConfig())
	var hba string
	if err := root.QueryRow(t.Context(), "SHOW hba_file").Scan(&hba); err != nil {
		t.Fatal(err)
	}
	rules := "local all all trust\n" + read(t, filepath.Join(dir, "testsetup", "pg_hba.conf"))
	rules = strings.ReplaceAll(rules, "hostssl   all         pgx_sslcert 127.0.0.1/32          cert\n", "") // takes a CA of clients
	run(t, root, "CREATE DATABASE pgx_test", "COPY (SELECT unnest(string_to_array($q$"+rules+"$q$, E'\\n'))) TO '"+hba+"'", "SELECT pg_reload_conf()")
	cfg := s.RootConfig()
	cfg.Database = "pgx_test"
	run(t, login(t, cfg), statements(read(t, filepath.Join(dir, "testsetup", "postgresql_setup.sql")))...)

	tcp := "host=127.0.0.1 port=" + s.Port() + " dbname=pgx_test password=secret user="
	tls := strings.Replace(tcp, "127.0.0.1", "localhost", 1) + "pgx_ssl sslmode=verify-full sslrootcert=" + s.CAFile
	return append(os.Environ(),
		"PGX_TEST_DATABASE="+tcp+"pgx_scram",
		"PGX_TEST_UNIX_SOCKET_CONN_STRING=host="+s.SocketDir+" port="+s.Port()+" user=postgres dbname=pgx_test",
		"PGX_TEST_TCP_CONN_STRING="+tcp+"pgx_md5",
		"PGX_TEST_PLAIN_PASSWORD_CONN_STRING="+tcp+"pgx_pw",
		"PGX_TEST_MD5_PASSWORD_CONN_STRING="+tcp+"pgx_md5",
		"PGX_TEST_SCRAM_PASSWORD_CONN_STRING="+tcp+"pgx_scram channel_binding=disable",
		"PGX_TEST_SCRAM_PLUS_CONN_STRING="+tls+" channel_binding=require",
		"PGX_TEST_TLS_CONN_STRING="+tls,
	)
}

func login(t *testing.T, cfg *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// statements are those of a script for psql, without what is for psql itself: it makes a user of the name of who runs it.
func statements(script string) (all []string) {
	var sql strings.Builder
	for _, line := range strings.Split(script, "\n") {
		switch {
		case strings.HasPrefix(line, "--") || strings.HasPrefix(line, `\`):
		case strings.HasSuffix(line, `\gexec`):
			sql.Reset()
		case strings.HasSuffix(line, ";"):
			sql.WriteString(line)
			all = append(all, sql.String())
			sql.Reset()
		default:
			sql.WriteString(line + "\n")
		}
	}
	return all
}

//go:build unix

package mariadbtest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/connprof/connprof/internal/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv("MARIADBTEST_DIE") != "" {
		startAndDie()
	}
	Main(m)
}

func TestUsersConnectWithTLSAndWithout(t *testing.T) {
	s := Start(t)
	tests := []struct {
		name string
		cfg  *mysql.Config
		want string // Ssl_version
	}{
		{"plain", s.Config(Plain), ""},
		{"verified", s.Config(Verified), "TLSv1.3"},
		{"unverified", s.Config(SkipVerify), "TLSv1.3"},
		{"TLS 1.2", s.Config(TLS12), "TLSv1.2"},
		{"root over the socket", s.RootConfig(), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := mysql.NewConnector(test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := tlsVersion(t, sql.OpenDB(c)); got != test.want {
				t.Errorf("TLS version %q, want %q", got, test.want)
			}
		})
	}
	t.Run("DSN", func(t *testing.T) {
		db, err := sql.Open("mysql", s.DSN(User, Password, "tls=skip-verify"))
		if err != nil {
			t.Fatal(err)
		}
		if got := tlsVersion(t, db); got != "TLSv1.3" {
			t.Errorf("TLS version %q, want TLSv1.3", got)
		}
	})
}

func TestWrongPasswordIsRefused(t *testing.T) {
	db, err := sql.Open("mysql", Start(t).DSN(User, "wrong", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if me := (*mysql.MySQLError)(nil); !errors.As(db.Ping(), &me) || me.Number != 1045 {
		t.Errorf("ping: %v, want error 1045", me)
	}
}

func TestServerIsOnePerProcessAndNeedsNoGoroutine(t *testing.T) {
	s := Start(t)
	if Start(t) != s {
		t.Error("a second Start started a second server")
	}
	goleak.VerifyNone(t)
}

func TestStopLeavesNothing(t *testing.T) {
	Start(t) // skips where there is no server
	begin := time.Now()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(begin).Round(time.Millisecond))
	pid := serverPID(t, s.dir)
	if os.Geteuid() == 0 && ownerOf(t, pid) == 0 {
		t.Error("the server runs as root")
	}
	begin = time.Now()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %v", time.Since(begin).Round(time.Millisecond))
	checkGone(t, pid, s.dir)
}

func TestServerThatEndedByItselfIsReported(t *testing.T) {
	Start(t)
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	pid := serverPID(t, s.dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !s.process.Ended(servertest.StopTimeout) {
		t.Fatal("the server's end was not seen")
	}
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("stop: %v, want a report", err)
	}
	checkGone(t, pid, s.dir)
}

func TestDyingTestProcessLeavesNothing(t *testing.T) {
	Start(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MARIADBTEST_DIE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Wait() // killed
	pid, dir, ok := strings.Cut(strings.TrimSpace(dir), " ")
	if !ok {
		t.Fatal("the process did not start a server")
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(servertest.StopTimeout); time.Now().Before(deadline) && exists(dir); {
		time.Sleep(servertest.PollInterval) // nobody tells when the shell is done
	}
	checkGone(t, n, dir)
}

// startAndDie is the process of TestDyingTestProcessLeavesNothing.
func startAndDie() {
	s, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pid, _ := os.ReadFile(s.path("pid"))
	fmt.Println(strings.TrimSpace(string(pid)), s.dir)
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestFailedStartShowsTheLogAndLeavesNothing(t *testing.T) {
	bin := fakePrograms(t, map[string]string{
		"mariadb-install-db": "exit 0",
		"mariadbd":           "pwd; echo '[ERROR] the reason'; exit 1",
	})
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err := start()
	if err == nil || !strings.Contains(err.Error(), "[ERROR] the reason") {
		t.Fatalf("start: %v, want the log's last lines", err)
	}
	_, dir, ok := strings.Cut(err.Error(), "\t")
	if dir, _, _ = strings.Cut(dir, "\n"); !ok || !strings.Contains(dir, "connprof-mariadb-") || exists(dir) {
		t.Errorf("the folder %q is still there", dir)
	}
}

func TestMissingServerSkipsOrFails(t *testing.T) {
	defer func(places []string) { usualPlaces = places }(usualPlaces)
	usualPlaces = nil
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct{ require, want string }{{"", "skip"}, {"1", "fatal"}} {
		missing := servertest.Shared[*Server]{Launch: start, Missing: errNotInstalled}
		t.Setenv("CONNPROF_REQUIRE_SERVERS", test.require)
		verdict := &verdict{TB: t}
		missing.Start(verdict)
		if verdict.what != test.want || !strings.Contains(verdict.why, "mariadb-server") {
			t.Errorf("CONNPROF_REQUIRE_SERVERS=%s: %s %q, want %s naming the package", test.require, verdict.what, verdict.why,
				test.want)
		}
	}
}

// verdict records how a test would first have been ended, and lets it go on.
type verdict struct {
	testing.TB
	what, why string
}

func (v *verdict) Skip(args ...any)  { v.end("skip", args) }
func (v *verdict) Fatal(args ...any) { v.end("fatal", args) }

func (v *verdict) end(what string, args []any) {
	if v.what == "" {
		v.what, v.why = what, fmt.Sprint(args...)
	}
}

// fakePrograms writes shell scripts into a folder that every user may read, and returns it.
func fakePrograms(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tlsVersion returns what the server says of the connection, and closes db.
func tlsVersion(t *testing.T, db *sql.DB) string {
	t.Helper()
	defer db.Close()
	var name, version string
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'Ssl_version'").Scan(&name, &version); err != nil {
		t.Fatal(err)
	}
	return version
}

func serverPID(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// ownerOf returns the effective user of a process, or -1 where there is no /proc.
func ownerOf(t *testing.T, pid int) int {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/"+strconv.Itoa(pid), &st); err != nil {
		return -1
	}
	return int(st.Uid)
}

func checkGone(t *testing.T, pid int, dir string) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server's process %d is still there", pid)
	}
	if exists(dir) {
		t.Errorf("the folder %s is still there", dir)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}

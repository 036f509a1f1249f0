//go:build unix

package postgrestest

import (
	"bufio"
	"context"
	"crypto/tls"
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/connprof/connprof/internal/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv("POSTGRESTEST_DIE") != "" {
		startAndDie()
	}
	Main(m)
}

func TestUsersConnectWithTLSAndWithout(t *testing.T) {
	s := Start(t)
	verified := parse(s.DSN(User, Password, "sslmode=verify-full&sslrootcert="+s.CAFile))
	for _, test := range []struct {
		name string
		cfg  *pgx.ConnConfig
		user string
		want uint16
	}{
		{"plain", s.Config(Plain), User, 0},
		{"verified", s.Config(Verified), User, tls.VersionTLS13},
		{"unverified", s.Config(SkipVerify), User, tls.VersionTLS13},
		{"TLS 1.2", s.Config(TLS12), User, tls.VersionTLS12},
		{"by DSN", verified, User, tls.VersionTLS13},
		{"over the socket", s.SocketConfig(), User, 0},
		{"the superuser over the socket", s.RootConfig(), superuser, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := pgx.ConnectConfig(t.Context(), test.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			var version uint16
			if tc, ok := c.PgConn().Conn().(*tls.Conn); ok {
				version = tc.ConnectionState().Version
			}
			var user string
			err = c.QueryRow(t.Context(), "SELECT current_user").Scan(&user)
			if err != nil || user != test.user || version != test.want {
				t.Errorf("user %q, TLS version %x, %v; want %q, %x", user, version, err, test.user, test.want)
			}
		})
	}
}

func TestPasswordsAreKeptAndAskedForAsSCRAM(t *testing.T) {
	s := Start(t)
	cfg := s.Config(Plain)
	cfg.RequireAuth = "scram-sha-256"
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Close(t.Context())
	cfg.Password = "wrong"
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	if pe := (*pgconn.PgError)(nil); !errors.As(err, &pe) || pe.Code != "28P01" {
		t.Errorf("with a wrong password: %v, want error 28P01", err)
	}
}

func TestServerIsOnePerProcessAndNeedsNoGoroutine(t *testing.T) {
	s := Start(t)
	if Start(t) != s {
		t.Error("a second Start started a second server")
	}
	goleak.VerifyNone(t)
}

func TestStopLeavesNothingEvenWithClients(t *testing.T) {
	Start(t) // skips where there is no server
	begin := time.Now()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(begin).Round(time.Millisecond))
	pid := serverPID(t, s.dir)
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/"+strconv.Itoa(pid), &st); err == nil && st.Uid == 0 {
		t.Error("the server runs as root")
	}
	c, err := pgx.ConnectConfig(t.Context(), s.Config(Plain))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	begin = time.Now()
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %v", time.Since(begin).Round(time.Millisecond))
	checkGone(t, pid, s.dir)
}

func TestDyingTestProcessLeavesNothing(t *testing.T) {
	Start(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "POSTGRESTEST_DIE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Wait() // killed
	pid, dir, ok := strings.Cut(strings.TrimSpace(said), " ")
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
	pid, _ := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	fmt.Println(strings.Fields(string(pid))[0], s.dir)
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func TestMissingServerSkipsOrFails(t *testing.T) {
	defer func(places []string) { usualPlaces = places }(usualPlaces)
	usualPlaces = nil
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct{ require, want string }{{"", "skip"}, {"1", "fatal"}} {
		missing := servertest.Shared[*Server]{Launch: start, Missing: errNotInstalled}
		t.Setenv("CONNPROF_REQUIRE_SERVERS", test.require)
		v := &verdict{TB: t}
		missing.Start(v)
		if v.what != test.want || !strings.Contains(v.why, "the package postgresql") {
			t.Errorf("CONNPROF_REQUIRE_SERVERS=%s: %s %q, want %s naming the package", test.require, v.what, v.why, test.want)
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

func serverPID(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
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

package accuracy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/postgrestest"
)

const (
	connections = 200                  // to each server over each network
	oneWay      = 5 * time.Millisecond // of the emulated network
)

func TestMain(m *testing.M) {
	switch os.Getenv(stageVariable) {
	case stageForwarder:
		endWithParent()
		fmt.Fprintln(os.Stderr, forward(3, oneWay)) // 3 is the first of ExtraFiles
		os.Exit(1)
	case stageMeasuring:
		endWithParent()
	}
	code := m.Run()
	if err := errors.Join(mariadbtest.Stop(), postgrestest.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// TestAccuracy measures if "make accuracy" asks for it. It fails where a bound is broken.
func TestAccuracy(t *testing.T) {
	switch os.Getenv(stageVariable) {
	case stageMeasuring:
		measureAll(t)
		return
	case stageWanted:
	default:
		t.Skip("measures for two minutes on an idle machine, as root: make accuracy")
	}
	if why := missing(); len(why) > 0 {
		t.Skip("accuracy is not measured: " + strings.Join(why, "; "))
	}
	args := []string{"-test.run=^TestAccuracy$", "-test.count=1", "-test.v"}
	cmd, parent, err := again(stageMeasuring, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	inNamespace(cmd)
	if err := cmd.Run(); err != nil {
		t.Fatalf("measuring in a network namespace: %v", err)
	}
}

// missing says what this machine lacks.
func missing() (why []string) {
	if os.Geteuid() != 0 {
		why = append(why, "a network namespace and a capture take root")
	}
	if _, err := os.Stat(tunFile); err != nil {
		why = append(why, "no TUN devices: "+err.Error())
	}
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	for _, tool := range []string{"tcpdump", "tshark"} {
		if _, err := exec.LookPath(tool); err != nil {
			why = append(why, tool+" is not installed (on Debian: scripts/install-accuracy-tools.sh)")
		}
	}
	return why
}

// measureAll runs in a network namespace of its own.
func measureAll(t *testing.T) {
	tun, err := setUp()
	if err != nil {
		t.Fatal(err)
	}
	my, pg := mariadbtest.Start(t), postgrestest.Start(t)
	forwarder, parent, err := again(stageForwarder)
	if err != nil {
		t.Fatal(err)
	}
	forwarder.ExtraFiles = []*os.File{tun}
	if err := forwarder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		parent.Close()
		forwarder.Wait() // its status says nothing
		tun.Close()
	}()
	admit(t, pg)

	fmt.Print(`Differences: what connprof says minus what the packets say. Queries at API level are connprof's Operations, from the driver's
call to its first response. At wire level they are from the entry of the first Write to the return of the last Read over connprof's
conn, stamped by this tool: connprof is out of the way by then. "Without connprof" are a stopwatch's times around the same calls, on
connections that were not wrapped, made by turns with the others: a difference there is the driver's, Go's and the kernel's. Early
and late are the two sides of a difference: how long before its first packet a phase began, and how long after its last it ended.
Greet begins where connect ends, which is late, as verify does where TLS ends, so that these two come out short. The
bounds are on the median, either way, and for an idle machine; at API level a bound is at least what is without connprof plus 20 µs.
`)
	t.Run("loopback", func(t *testing.T) {
		measureOver(t, my, pg, "loopback", "lo", local, onLoopback)
	})
	t.Run("10 ms", func(t *testing.T) {
		measureOver(t, my, pg, fmt.Sprint(2*oneWay, " RTT"), device, far, overWAN)
	})
}

// measureOver measures both servers over one network, under one capture.
func measureOver(t *testing.T, my *mariadbtest.Server, pg *postgrestest.Server, network, device, host string, b bounds) {
	dir := t.TempDir()
	keyLog, err := os.Create(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer keyLog.Close()
	bareAndNot := func(bare bool) (a, b client) {
		a, err := newMariaDB(my, host, bare, keyLog)
		if err != nil {
			t.Fatal(err)
		}
		return a, newPostgreSQL(pg, host, bare, keyLog)
	}
	mysql, postgres := bareAndNot(false)
	bareMySQL, barePostgres := bareAndNot(true)
	pairs := [][]client{{mysql, bareMySQL}, {postgres, barePostgres}}
	file := filepath.Join(dir, "capture")
	c, err := startCapture(file, device, mysql.port, postgres.port)
	if err != nil {
		t.Fatal(err)
	}
	before := readMachine()
	ms := make([][]measured, len(pairs))
	for i, pair := range pairs {
		if ms[i], err = measure(t.Context(), connections, pair...); err != nil {
			t.Error(err)
		}
	}
	machine := readMachine().since(before)
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	ps, err := dissect(file, keyLog.Name(), mysql.port, postgres.port)
	if err != nil {
		t.Fatal(err)
	}
	ts := truths(ps)
	for i, pair := range pairs {
		name := pair[0].name
		r := compare(ms[i], ts, b)
		r.write(os.Stdout, name+", "+network+", "+machine)
		if r.broken() {
			t.Errorf("%s over %s: a bound is broken", name, network)
		}
	}
}

// admit lets clients into PostgreSQL that come from far, where local seems to be for a server at the end of the emulated network.
func admit(t *testing.T, pg *postgrestest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, pg.RootConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var name string
	if err := conn.QueryRow(ctx, "SHOW hba_file").Scan(&name); err != nil {
		t.Fatal(err)
	}
	access, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(access, "host all all %s/32 scram-sha-256\n", far)
	if err := errors.Join(err, access.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	// The server takes the new rules at some later moment, which it does not tell.
	c := newPostgreSQL(pg, far, true, io.Discard)
	for c.make(ctx) != nil {
		if ctx.Err() != nil {
			t.Fatalf("PostgreSQL lets in no client from %s", far)
		}
		*c.seen = seen{}
	}
}

package handshake

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/profiler"
)

var update = flag.Bool("update", false, "record the flows in testdata anew, from real servers")

// A recording is what a real driver and a real server said to each other below TLS while a connection was made, with the times of each
// call. A file of testdata/*.flow holds a line for each call ("<" a Read, ">" a Write; entry and return in µs; the bytes) and what its
// replay says. The accounts are the throw-away ones of the test servers.
type recording struct {
	name, system string
	setup        int
	failed       bool
	want         string
	flow         tlsFlow
}

func (r *recording) encode() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\nsystem %s\nsetup %d\nfailed %t\nwant %s\n", r.name, r.system, r.setup, r.failed, r.want)
	for _, c := range r.flow {
		fmt.Fprintf(&b, "%c %d %d %x\n", "<>"[map[bool]int{true: 1}[c.out]], c.entry/1000, c.ret/1000, c.b)
	}
	return b.String()
}

func decodeRecording(tb testing.TB, file string) (r recording) {
	tb.Helper()
	text, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "#":
			r.name = rest
		case "system":
			r.system = rest
		case "setup":
			fmt.Sscan(rest, &r.setup)
		case "failed":
			fmt.Sscan(rest, &r.failed)
		case "want":
			r.want = rest
		case "<", ">":
			var c tlsChunk
			var text string
			fmt.Sscan(rest, &c.entry, &c.ret, &text)
			c.out = word == ">"
			c.entry, c.ret = c.entry*1000, c.ret*1000
			if c.b, err = hex.DecodeString(text); err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			r.flow = append(r.flow, c)
		}
	}
	if lines.Err() != nil {
		tb.Fatalf("%s: %v", file, lines.Err())
	}
	return r
}

func recordings(tb testing.TB) (rs []recording) {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.flow")
	if err != nil || len(files) == 0 {
		tb.Fatal("no recordings: ", err)
	}
	for _, f := range files {
		rs = append(rs, decodeRecording(tb, f))
	}
	return rs
}

func (r *recording) d() *Dialer {
	return &Dialer{Endpoint: profiler.Endpoint{System: r.system}, SetupTurns: r.setup, LoginError: func(error) bool { return r.setup == 0 }}
}

func (r *recording) err() error {
	if r.failed {
		return errReplay
	}
	return nil
}

// timedConn is a scriptedConn whose calls take the time that they took.
type timedConn struct {
	scriptedConn
	until func() // passes the rest of the call's time
}

func (c *timedConn) Write(b []byte) (int, error) { c.until(); return c.scriptedConn.Write(b) }
func (c *timedConn) Read(b []byte) (int, error)  { c.until(); return c.scriptedConn.Read(b) }

// replay repeats the recording with its times and says what the watch makes of it.
func (r *recording) replay(t *testing.T) (said string) {
	synctest.Test(t, func(t *testing.T) {
		d := r.d()
		c := new(profiler.Profiler).NewConn(d.Endpoint, profiler.RolePool)
		start := time.Now()
		at := func(i profiler.Instant) { time.Sleep(time.Until(start.Add(time.Duration(i)))) }
		inner := new(timedConn)
		w := &watch{c: c, d: d, nc: inner, dialed: profiler.Now(), lastIO: profiler.Now()}
		c.Watch(w)
		nc := newConn(inner, w)
		for _, chunk := range r.flow {
			at(chunk.entry)
			inner.until = func() { at(chunk.ret) }
			if chunk.out {
				nc.Write(chunk.b)
			} else {
				inner.next = chunk.b
				nc.Read(make([]byte, len(chunk.b)))
			}
		}
		if r.failed {
			c.Fail(profiler.NoCaller, errReplay)
		} else {
			c.Ready(profiler.NoCaller)
		}
		cr := c.Create()
		var b strings.Builder
		for p := range profiler.Phases {
			if s := cr.Phases[p]; s.Present {
				fmt.Fprintf(&b, "%v %v, ", p, s.Duration)
			}
		}
		if cr.Failed != profiler.NoPhase {
			fmt.Fprintf(&b, "failed in %v, ", cr.Failed)
		}
		wire := cr.Wire
		fmt.Fprintf(&b, "%d turns, %v of auth waiting, peer speaks %v, version %q, auth by %v, path %v, %d iterations, error %q %q",
			wire.Turns, wire.AuthWait, wire.Protocol, wire.ServerVersion, wire.AuthMethod, wire.AuthPath, wire.SCRAMIterations,
			wire.ServerError, wire.ServerError.SQLState())
		if tl := cr.TLS; tl.Seen {
			fmt.Fprintf(&b, ", %s %s %s, done %t, resumed %t, tickets %v, server name %q, hello %d bytes at %v, answered at %v, alert %d %t, out %d, in %d",
				tl.VersionName(), tl.CipherName(), tl.GroupName(), tl.Done, tl.Resumed, tl.Tickets, tl.ServerName, tl.HelloSize,
				tl.HelloWritten, tl.ServerHello, tl.Alert, tl.AlertEncrypted, tl.BytesOut, tl.BytesIn)
			fmt.Fprintf(&b, ", groups %v, keys %v, certificate %d bytes, at most %t",
				tl.GroupsOffered, tl.KeyShares, tl.CertificateBytes, tl.CertificateAtMost)
		}
		said = b.String()
	})
	return said
}

func TestRecordedFlowsKeepTheirTimesAndFacts(t *testing.T) {
	if *update {
		record(t)
	}
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			if got := r.replay(t); got != r.want {
				t.Errorf("\n got %s\nwant %s", got, r.want)
			}
		})
	}
}

func TestRecordedFlowsSayTheSameForEverySplit(t *testing.T) {
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			want := checkAnyCreate(t, r.flow, r.d(), r.err(), 1)
			r.flow.splits(func(chunk, at int, split tlsFlow) {
				if got, _ := split.make(r.d(), r.err()); !reflect.DeepEqual(got, want) {
					t.Fatalf("call %d cut after %d bytes:\n got %+v\nwant %+v", chunk, at, got, want)
				}
			})
		})
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// recorded is a connection to record: connect makes it with a real driver, without connprof, and returns what closes it.
type recorded struct {
	file, name, system string
	setup              int
	connect            func(ctx context.Context, dial dialFunc) (end func(), err error)
	times              int // the last one is kept
	fails              bool
}

// record makes each connection and writes what passed.
func record(t *testing.T) {
	for _, tt := range append(mariadbRecordings(t), postgresRecordings(t)...) {
		r := recording{name: tt.name, system: tt.system, failed: tt.fails, setup: tt.setup}
		for range max(1, tt.times) {
			var rec *tlsRecorder
			end, err := tt.connect(t.Context(), func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				if rec != nil {
					return nc, err // of a request to cancel
				}
				rec = &tlsRecorder{Conn: nc}
				return rec, err
			})
			rec.mu.Lock()
			r.flow = slices.Clone(rec.flow)
			rec.mu.Unlock()
			if err == nil {
				end()
			}
			if (err != nil) != tt.fails || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		first := r.flow[0].entry
		for i := range r.flow { // in whole microseconds, from the first call
			c := &r.flow[i]
			c.entry, c.ret = c.entry.Add(-time.Duration(first))/1000*1000, c.ret.Add(-time.Duration(first))/1000*1000
		}
		r.want = r.replay(t)
		if err := os.WriteFile(filepath.Join("testdata", tt.file+".flow"), []byte(r.encode()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func mariadbRecordings(t *testing.T) (rs []recorded) {
	s := mariadbtest.Start(t)
	t.Cleanup(func() { mariadbtest.Stop() })
	resumed := func(t mariadbtest.TLS) *tls.Config {
		cfg := s.ClientTLS(t)
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return cfg
	}
	add := func(file, name string, secure *tls.Config, times int, fails bool, change func(*mysql.Config)) {
		cfg := s.Config(mariadbtest.Plain)
		cfg.TLS, cfg.Logger = secure, &mysql.NopLogger{}
		change(cfg)
		rs = append(rs, recorded{file: "mariadb_" + file, name: "MariaDB, " + name, system: "mysql", setup: len(cfg.Params),
			times: times, fails: fails, connect: func(ctx context.Context, dial dialFunc) (func(), error) {
				cfg := cfg.Clone()
				cfg.DialFunc = dial
				c, err := mysql.NewConnector(cfg)
				if err != nil {
					return nil, err
				}
				conn, err := c.Connect(ctx)
				return func() { conn.Close() }, err
			}})
	}
	asItIs := func(*mysql.Config) {}
	setsVariable := func(c *mysql.Config) { c.Params = map[string]string{"wait_timeout": "100"} }
	unknownDatabase := func(c *mysql.Config) { c.DBName = "nosuchdatabase" }
	tls13, tls12 := s.ClientTLS(mariadbtest.Verified), s.ClientTLS(mariadbtest.TLS12)
	add("plain", "in the clear", nil, 1, false, asItIs)
	add("plain_setup", "in the clear, with a set-up statement", nil, 1, false, setsVariable)
	add("plain_refused", "in the clear, unknown database", nil, 1, true, unknownDatabase)
	add("tls13", "TLS 1.3", tls13, 1, false, asItIs)
	add("tls13_setup", "TLS 1.3, with a set-up statement", tls13, 1, false, setsVariable)
	add("tls13_resumed", "TLS 1.3 resumed", resumed(mariadbtest.Verified), 2, false, asItIs)
	add("tls13_refused", "TLS 1.3, unknown database", tls13, 1, true, unknownDatabase)
	add("tls13_unknown_ca", "TLS 1.3, unknown authority", &tls.Config{ServerName: "localhost", RootCAs: tlsPool()}, 1, true, asItIs)
	add("tls12", "TLS 1.2", tls12, 1, false, asItIs)
	add("tls12_resumed", "TLS 1.2 resumed", resumed(mariadbtest.TLS12), 2, false, asItIs)
	return rs
}

func postgresRecordings(t *testing.T) (rs []recorded) {
	s := postgrestest.Start(t)
	t.Cleanup(func() { postgrestest.Stop() })
	add := func(file, name string, secure *tls.Config, fails bool, change func(*pgx.ConnConfig)) {
		cfg := s.Config(postgrestest.Plain)
		cfg.TLSConfig = secure
		change(cfg)
		rs = append(rs, recorded{file: "postgresql_" + file, name: "PostgreSQL, " + name, system: "postgresql",
			fails: fails, connect: func(ctx context.Context, dial dialFunc) (func(), error) {
				cfg := cfg.Copy()
				cfg.DialFunc = dial
				conn, err := pgx.ConnectConfig(ctx, cfg)
				return func() { conn.Close(ctx) }, err
			}})
	}
	asItIs := func(*pgx.ConnConfig) {}
	tls13, tls12 := s.ClientTLS(postgrestest.Verified), s.ClientTLS(postgrestest.TLS12)
	add("plain", "in the clear", nil, false, asItIs)
	add("plain_refused", "in the clear, wrong password", nil, true, func(c *pgx.ConnConfig) { c.Password = "another" })
	add("tls13", "TLS 1.3 with a HelloRetryRequest", tls13, false, asItIs) // C17
	p256 := tls13.Clone()
	p256.CurvePreferences = []tls.CurveID{tls.CurveP256}
	add("tls13_p256", "TLS 1.3 without a HelloRetryRequest", p256, false, asItIs)
	add("tls13_refused", "TLS 1.3, unknown database", tls13, true, func(c *pgx.ConnConfig) { c.Database = "nosuchdatabase" })
	add("tls13_unknown_ca", "TLS 1.3, unknown authority", &tls.Config{ServerName: "localhost", RootCAs: tlsPool()}, true, asItIs)
	add("tls12", "TLS 1.2", tls12, false, asItIs)
	return rs
}

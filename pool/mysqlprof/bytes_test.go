package mysqlprof

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/profiler"
)

// tally is what passed through a counting relay.
type tally struct{ sent, received, turns int64 }

func (a tally) minus(b tally) tally {
	return tally{a.sent - b.sent, a.received - b.received, a.turns - b.turns}
}

// relay passes on what a driver and a server say to each other and counts it. It is between them, so that what was answered is counted.
type relay struct {
	addr string
	mu   sync.Mutex
	n    tally // mu
	asks bool  // mu: the driver spoke last
}

func counted(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	var wg sync.WaitGroup
	pass := func(dst, src net.Conn, count func(n int64)) {
		defer dst.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := src.Read(b)
			if err != nil {
				return
			}
			r.mu.Lock()
			count(int64(n))
			r.mu.Unlock()
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			wg.Go(func() { pass(s, c, func(n int64) { r.n.sent, r.asks = r.n.sent+n, true }) })
			wg.Go(func() {
				pass(c, s, func(n int64) {
					if r.n.received += n; r.asks {
						r.asks = false
						r.n.turns++
					}
				})
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return r
}

func (r *relay) tally() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// The bytes and round trips of an operation are those that a relay between driver and server counts. A statement that the driver closes is
// not answered, and goes out after the operation that it was for; a query that is answered pushes it through.
func TestBytesAndRoundTripsAreThoseOfARelay(t *testing.T) {
	s := mariadbtest.Start(t)
	const load = "LOAD DATA LOCAL INFILE 'Reader::mysqlprof-bytes' INTO TABLE loaded"
	mysql.RegisterReaderHandler("mysqlprof-bytes", func() io.Reader { return strings.NewReader(strings.Repeat("1\n", 30_000)) })
	defer mysql.DeregisterReaderHandler("mysqlprof-bytes")
	admin, err := sql.Open("mysql", s.RootConfig().FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	var local int
	if err := admin.QueryRow("SELECT @@local_infile").Scan(&local); err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		relay := counted(t, s.Addr)
		cfg := config(s, secure)
		cfg.Addr, cfg.MultiStatements = relay.addr, true
		db, _, ops := opened(t, cfg)
		db.SetMaxOpenConns(1)
		ctx := t.Context()
		do := func(q string, args ...any) error { _, err := db.ExecContext(ctx, q, args...); return err }
		if err := do("CREATE TEMPORARY TABLE loaded (a INT)"); err != nil {
			t.Fatal(err)
		}
		st, err := db.Prepare("SELECT ?")
		if err != nil {
			t.Fatal(err)
		}
		all := func(rows *sql.Rows, err error) error {
			if err != nil {
				return err
			}
			for rows.Next() {
			}
			return rows.Close()
		}
		var tx *sql.Tx
		sync := func() tally {
			if err := do("DO 0"); err != nil {
				t.Fatal(err)
			}
			return relay.tally()
		}
		sync()
		before := sync()
		one := sync().minus(before) // what a sync itself costs
		for _, tt := range []struct {
			name   string
			turns  int64
			closes bool // a statement, after it
			fails  bool
			run    func() error
		}{
			{"exec", 1, false, false, func() error { return do("DO 1") }},
			{"query", 1, false, false, func() error { return all(db.Query("SELECT 1")) }},
			{"many rows", 1, false, false, func() error { return all(db.Query("SELECT REPEAT('x', 500) FROM seq_1_to_2000")) }},
			{"rows that are closed early", 1, false, false, func() error {
				rows, err := db.Query("SELECT REPEAT('x', 500) FROM seq_1_to_2000")
				if err != nil {
					return err
				}
				rows.Next()
				return rows.Close()
			}},
			{"a parameter", 2, true, false, func() error { return all(db.Query("SELECT ?", "parameter")) }},
			{"a parameter, exec", 2, true, false, func() error { return do("DO ?", 7) }},
			{"a statement", 1, false, false, func() error { return all(st.Query(strings.Repeat("p", 100_000))) }},
			{"an error", 1, false, true, func() error { return do("no statement") }},
			{"an error of preparing", 1, false, true, func() error { return do("no statement ?", 1) }},
			{"two statements", 1, false, false, func() error { return do("DO 1; DO 2") }},
			{"a file", 2, false, false, func() error { return do(load) }},
			{"a file after another statement", 2, false, false, func() error { return do("DO 1; " + load) }},
			{"begin", 2, false, false, func() (err error) {
				tx, err = db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
				return err
			}},
			{"commit", 1, false, false, func() error { return tx.Commit() }},
		} {
			if tt.turns == 2 && strings.HasPrefix(tt.name, "a file") && local == 0 {
				continue
			}
			t.Run(fmt.Sprintf("TLS %v, %s", secure, tt.name), func(t *testing.T) {
				inTx := tx != nil
				before := relay.tally()
				if !inTx {
					before = sync()
				}
				if err := tt.run(); (err != nil) != tt.fails {
					t.Fatal(err)
				}
				op := ops.last(t)
				want := relay.tally()
				if tt.name == "commit" {
					tx = nil
				}
				if tx == nil {
					want = sync()
					want.sent, want.received, want.turns = want.sent-one.sent, want.received-one.received, want.turns-one.turns
				}
				want = want.minus(before)
				if tt.closes { // COM_STMT_CLOSE: a header, the command and a number; under TLS 1.3 a record
					if want.sent -= 9; secure {
						want.sent -= 22
					}
				}
				if !op.BytesKnown || op.Sent != want.sent || op.Received != want.received || int64(op.Turns) != want.turns || want.turns != tt.turns {
					t.Errorf("%d bytes sent, %d received in %d turns (known: %v), the relay says %+v; want %d turns", op.Sent, op.Received, op.Turns, op.BytesKnown, want, tt.turns)
				}
				if op.Received == 0 || op.Sent == 0 {
					t.Error("nothing passed")
				}
			})
		}
		st.Close()
	}
}

// A query that gets no answer has sent and received nothing, and its round trips are not known.
func TestAnUnansweredQueryReceivedNothing(t *testing.T) {
	s := mariadbtest.Start(t)
	db, _, ops := opened(t, config(s, true))
	if _, err := db.Exec("DO 1"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "DO SLEEP(30)"); err == nil {
		t.Fatal("it was answered")
	}
	if op := ops.last(t); op.Sent < 15 || op.Received != 0 || op.Turns != 0 || op.Outcome != profiler.Timeout {
		t.Errorf("%d bytes sent, %d received in %d turns (known: %v)", op.Sent, op.Received, op.Turns, op.BytesKnown)
	}
}

// What a dialer of the user's encrypts itself passes unseen.
func TestBytesThatNobodyWatchesAreNotKnown(t *testing.T) {
	s := mariadbtest.Start(t)
	cfg := config(s, false)
	cert := certtest.NewCA(certtest.ECDSA).Issue(certtest.Leaf{})
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		far, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		near, mid := net.Pipe()
		server := tls.Server(mid, &tls.Config{Certificates: []tls.Certificate{cert.TLS}})
		wg.Go(func() { io.Copy(far, server); far.Close() })
		wg.Go(func() { io.Copy(server, far); mid.Close() })
		return tls.Client(near, &tls.Config{InsecureSkipVerify: true}), nil
	}
	db, _, ops := opened(t, cfg)
	if _, err := db.Exec("DO 1"); err != nil {
		t.Fatal(err)
	}
	if op := ops.last(t); op.BytesKnown || op.Sent != 0 || op.Received != 0 || op.Turns != 1 {
		t.Errorf("%d bytes sent, %d received (known: %v) in %d turns; want the turn that the driver is known to take", op.Sent, op.Received, op.BytesKnown, op.Turns)
	}
}

package faultrelay

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/postgrestest"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/pool/pgxprof"
	"github.com/connprof/connprof/profiler"
)

var every = flag.Int("faults.every", 149, "break an establishment at every n-th byte; 1 is the whole form")

func TestMain(m *testing.M) {
	// A driver that panics leaves its goroutine: see errPanic.
	goleak.VerifyTestMain(stopAfter{m}, goleak.IgnoreTopFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1"))
}

// stopAfter stops the servers before the look for goroutines.
type stopAfter struct{ m *testing.M }

func (s stopAfter) Run() int {
	code := s.m.Run()
	if err := errors.Join(mariadbtest.Stop(), postgrestest.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

const (
	atOnce = 64
	limit  = 100 * time.Millisecond // of one establishment

	// patience is the limit where a run is repeated to see whether its time ran out for this machine's load alone.
	patience = time.Second
)

// client makes and closes one connection with a real driver: bare with a nil Profiler.
type client struct {
	name    string
	address string
	connect func(ctx context.Context, p *profiler.Profiler, dial DialFunc) error
	request int // size of the request for TLS with which the client begins
	greets  bool
	tls12   bool
	part    int // of the faults one in so many is made
}

func clients(t *testing.T) []client {
	my := mariadbtest.Start(t)
	pg := postgrestest.Start(t)
	mariaDB := func(tls mariadbtest.TLS) func(context.Context, *profiler.Profiler, DialFunc) error {
		return func(ctx context.Context, p *profiler.Profiler, dial DialFunc) error {
			cfg := my.Config(tls)
			cfg.DialFunc, cfg.Logger = dial, &mysql.NopLogger{}
			c, err := mysqlprof.Connector(p, cfg)
			if err != nil {
				return err
			}
			conn, err := c.Connect(ctx)
			if err == nil {
				conn.Close()
			}
			return err
		}
	}
	postgreSQL := func(tls postgrestest.TLS) func(context.Context, *profiler.Profiler, DialFunc) error {
		return func(ctx context.Context, p *profiler.Profiler, dial DialFunc) error {
			cfg := pg.Config(tls)
			cfg.DialFunc = dial
			conn, err := pgx.ConnectConfig(ctx, pgxprof.InstrumentConn(p, cfg))
			if err == nil {
				conn.Close(ctx)
			}
			return err
		}
	}
	const mysqlRequest, postgresRequest = 4 + 32, 8
	return []client{
		{name: "MariaDB", address: my.Addr, connect: mariaDB(mariadbtest.Verified), request: mysqlRequest, greets: true, part: 1},
		{name: "PostgreSQL", address: pg.Addr, connect: postgreSQL(postgrestest.Verified), request: postgresRequest, part: 1},
		{name: "MariaDB, TLS 1.2", address: my.Addr, connect: mariaDB(mariadbtest.TLS12), request: mysqlRequest, greets: true, tls12: true, part: 3},
		{name: "PostgreSQL, TLS 1.2", address: pg.Addr, connect: postgreSQL(postgrestest.TLS12), request: postgresRequest, tls12: true, part: 3},
	}
}

// came is the phase that a client is in which has sent and received this much, from the bytes alone; where it stands on the boundary of two,
// both.
func (c *client) came(sent, received []byte) []profiler.Phase {
	if len(sent) == 0 {
		if c.greets && len(received) >= 4 && len(received) >= 4+int(received[0])+int(received[1])<<8 {
			return []profiler.Phase{profiler.Greet, profiler.TLS}
		}
		return []profiler.Phase{profiler.Greet}
	}
	if !c.greets && len(sent) <= c.request {
		if len(received) == 0 {
			return []profiler.Phase{profiler.Greet}
		}
		return []profiler.Phase{profiler.Greet, profiler.TLS}
	}
	switch {
	case c.tls12 && c.spoke12(sent), !c.tls12 && c.secured13(sent):
		return []profiler.Phase{profiler.Auth}
	case c.tls12 && c.secured12(received): // whether it had read that, only what it sends next would tell
		return []profiler.Phase{profiler.TLS, profiler.Verify, profiler.Auth}
	}
	return []profiler.Phase{profiler.TLS}
}

// Content types of a TLS record (RFC 8446 §5.1, RFC 5246 §6.2.1).
const (
	changeCipherSpec = 20
	handshake        = 22
	applicationData  = 23
)

// secured13 reports whether the client has sent its Finished. With SHA-256 or SHA-384 that has one of two sizes (RFC 8446 §4.4.4, §5.2); an
// empty Certificate may come before it. The login follows at once.
func (c *client) secured13(sent []byte) (done bool) {
	const finished256, finished384 = 4 + 32 + 1 + 16, 4 + 48 + 1 + 16
	records(sent[min(c.request, len(sent)):], func(kind byte, size int) {
		done = done || kind == applicationData && (size == finished256 || size == finished384)
	})
	return done
}

// spoke12 reports whether the client has sent something after its handshake.
func (c *client) spoke12(sent []byte) (done bool) {
	records(sent[min(c.request, len(sent)):], func(kind byte, _ int) { done = done || kind == applicationData })
	return done
}

// secured12 reports whether the server's Finished was passed on to the client: the handshake record after its ChangeCipherSpec (RFC 5246
// §7.3, figure 1).
func (c *client) secured12(received []byte) (done bool) {
	preamble := 1 // PostgreSQL's S
	if c.greets && len(received) >= 4 {
		preamble = 4 + int(received[0]) + int(received[1])<<8
	}
	protected := false
	records(received[min(preamble, len(received)):], func(kind byte, _ int) {
		done = done || protected && kind == handshake
		protected = protected || kind == changeCipherSpec
	})
	return done
}

// records calls each with every whole record of b.
func records(b []byte, each func(kind byte, size int)) {
	for len(b) >= 5 {
		size := int(binary.BigEndian.Uint16(b[3:]))
		if len(b) < 5+size {
			return
		}
		each(b[0], size)
		b = b[5+size:]
	}
}

// class is what an error is compared by: what programs branch on, or its text without what differs from run to run.
func class(err error) string {
	var me *mysql.MySQLError
	var pe *pgconn.PgError
	var ne net.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &me):
		return fmt.Sprint("server error ", me.Number)
	case errors.As(err, &pe):
		return "server error " + pe.Code
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "timeout"
	case errors.Is(err, mysql.ErrInvalidConn):
		return "invalid connection"
	case errors.Is(err, driver.ErrBadConn):
		return "bad connection"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	}
	return varying.ReplaceAllString(err.Error(), "#")
}

var varying = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+|\\x[0-9a-f]{2}|"[^"]*"`)

// creates keeps what a Sink is told of the pool's creates.
type creates struct {
	mu  sync.Mutex
	all []*profiler.Create
}

func (c *creates) Record(_ context.Context, e profiler.Event) {
	if e.Kind == profiler.KindCreate && e.Conn.Role() == profiler.RolePool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, e.Conn.Create())
	}
}

// errPanic stands for a driver that panics: go-sql-driver/mysql 1.10 does on a greeting whose salt is cut short.
type errPanic struct{ value any }

func (e errPanic) Error() string { return fmt.Sprint("panic: ", e.value) }

// once makes one connection through the relay.
func (c *client) once(r *Relay, p *profiler.Profiler, f Fault, limit time.Duration) (run *Run, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var nc net.Conn
	var dials atomic.Int32
	dial := func(ctx context.Context, _, _ string) (_ net.Conn, err error) {
		if dials.Add(1) > 1 { // pgx asks the server to cancel, over a connection of its own that nobody waits for
			return new(net.Dialer).DialContext(ctx, "tcp", c.address)
		}
		nc, run, err = r.Dial(ctx, f)
		return nc, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = errPanic{v}
			nc.Close()
		}
		if run != nil {
			run.Wait()
		}
	}()
	err = c.connect(ctx, p, dial)
	return run, err
}

// verdict is what one fault led to.
type verdict struct {
	runs      int
	late      bool   // the bare client's classes were not complete after three runs
	different string // how the profiled result differs, "" if it does not
	wrong     string // how the failed phase is wrong
}

// profiled is once with a Profiler, and what it reported.
func (c *client) profiled(r *Relay, f Fault, limit time.Duration) (*creates, *Run, string, error) {
	sink := new(creates)
	run, err := c.once(r, &profiler.Profiler{Sinks: []profiler.Sink{sink}}, f, limit)
	return sink, run, class(err), err
}

// try learns how the bare client ends with the fault and compares the profiled one.
func (c *client) try(r *Relay, f Fault) (v verdict) {
	var allowed []string
	bare := func(limit time.Duration) {
		_, err := c.once(r, nil, f, limit)
		v.runs++
		if k := class(err); !slices.Contains(allowed, k) {
			allowed = append(allowed, k)
		}
	}
	for range 3 {
		bare(limit)
	}
	sink, run, got, err := c.profiled(r, f, limit)
	v.runs++
	for i := 0; i < 20 && !slices.Contains(allowed, got); i++ { // a race that three runs did not show
		v.late = true
		if got == "timeout" { // or this machine's load
			sink, run, got, err = c.profiled(r, f, patience)
			v.runs++
		}
		bare(patience)
	}
	if !slices.Contains(allowed, got) {
		v.different = fmt.Sprintf("%v: profiled %q (%v), bare %q", f, got, err, allowed)
	}
	if errors.As(err, new(errPanic)) {
		return v // nothing was there to end the create
	}
	if len(sink.all) != 1 {
		v.wrong = fmt.Sprintf("%v: %d creates were reported, want 1", f, len(sink.all))
		return v
	}
	cr := sink.all[0]
	if cr.Err != err || (err == nil) != (cr.Failed == profiler.NoPhase) {
		v.wrong = fmt.Sprintf("%v: failed in %v with %v, the driver says %v", f, cr.Failed, cr.Err, err)
		return v
	}
	if err == nil || run == nil {
		return v
	}
	if f.Kind == Corrupt && run.Broken { // the wrong byte may be noticed later
		sent, received := run.FromClient[:run.ClientThen], run.FromServer[:run.ServerThen]
		if f.ToServer { // what comes after it may have come with it
			sent = sent[:f.Offset]
		}
		if first := c.came(sent, received)[0]; cr.Failed < first {
			v.wrong = fmt.Sprintf("%v: failed in %v, before %v (%v)", f, cr.Failed, first, err)
		}
		return v
	}
	want := c.came(run.FromClient, run.FromServer)
	if f.Kind == Reset && run.Broken { // what had come may be lost, unread; what was sent was sent
		least := c.came(run.FromClient, nil)[0]
		if cr.Failed >= least && cr.Failed < want[0] {
			want = []profiler.Phase{cr.Failed}
		}
	}
	if !slices.Contains(want, cr.Failed) {
		v.wrong = fmt.Sprintf("%v: failed in %v, want %v (%v, cause %v; %d bytes sent, %d received)",
			f, cr.Failed, want, err, cr.Cause, len(run.FromClient), len(run.FromServer))
	}
	return v
}

// faults are the ways to break what a run without a fault passed, at every byte, of which one in n is made. Resets are at every second byte:
// where they strike a client decides the scheduler.
func faults(run *Run, n int) (fs []Fault) {
	for _, kind := range []Kind{Cut, Reset, Stall, Corrupt} {
		step := 1
		if kind == Reset {
			step = 2
		}
		for at := 0; at < len(run.FromClient); at += step {
			fs = append(fs, Fault{kind, true, at})
		}
		for at := 0; at < len(run.FromServer); at += step {
			fs = append(fs, Fault{kind, false, at})
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
	return fs[:(len(fs)+n-1)/n]
}

// An establishment that breaks at any byte ends as without the profiler, and is charged to the phase that the relay saw.
func TestFaultsOfAnEstablishment(t *testing.T) {
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			r, err := Listen(c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			whole, err := c.once(r, nil, Fault{}, patience)
			if err != nil {
				t.Fatal(err)
			}
			all := faults(whole, *every*c.part)
			start := time.Now()
			work := make(chan Fault)
			var mu sync.Mutex
			var runs, late, differences, misattributions int
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					for f := range work {
						v := c.try(r, f)
						mu.Lock()
						runs += v.runs
						if v.late {
							late++
						}
						if v.different != "" {
							if differences++; differences <= 10 {
								t.Error(v.different)
							}
						}
						if v.wrong != "" {
							if misattributions++; misattributions <= 10 {
								t.Error(v.wrong)
							}
						}
						mu.Unlock()
					}
				})
			}
			for _, f := range all {
				work <- f
			}
			close(work)
			wg.Wait()
			t.Logf("%d bytes to the server, %d to the client; %d faults, %d runs (%d times more than 4) in %v",
				len(whole.FromClient), len(whole.FromServer), len(all), runs, late, time.Since(start).Round(time.Second/10))
			t.Logf("%s: %d runs, %d differences, %d misattributions", c.name, runs, differences, misattributions)
		})
	}
}

// The relay itself: what passes, and where it breaks.
func TestARelayBreaksAtTheByte(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer nc.Close(); io.Copy(nc, nc) }()
		}
	}()
	r, err := Listen(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, tt := range []struct {
		fault    Fault
		received string // of an echo of "abcdef"
		ends     bool
	}{
		{Fault{}, "abcdef", false},
		{Fault{Cut, true, 0}, "", true},
		{Fault{Cut, false, 4}, "abcd", true},
		{Fault{Reset, true, 0}, "", true},
		{Fault{Stall, false, 2}, "ab", false},
		{Fault{Stall, true, 3}, "", false},
		{Fault{Corrupt, true, 1}, "a7cdef", false},
		{Fault{Corrupt, false, 9}, "abcdef", false},
	} {
		nc, run, err := r.Dial(t.Context(), tt.fault)
		if err != nil {
			t.Fatal(err)
		}
		nc.Write([]byte("abcdef"))
		nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		got, err := io.ReadAll(nc)
		nc.Close()
		run.Wait()
		var ne net.Error
		open := errors.As(err, &ne) && ne.Timeout()
		if reset := errors.Is(err, syscall.ECONNRESET); reset != (tt.fault.Kind == Reset) {
			t.Errorf("%v: the client read %v", tt.fault, err)
		}
		if string(got) != tt.received || open == tt.ends || string(run.FromClient) != "abcdef" {
			t.Errorf("%v: received %q, %v; the relay got %q", tt.fault, got, err, run.FromClient)
		}
	}
}

// A dial that returns after the relay has given it up is a run that has ended.
func TestARunWhoseDialIsLateEnds(t *testing.T) {
	r, err := listen("127.0.0.1:1", time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	nc, err := net.Dial("tcp", r.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if n, err := nc.Read(make([]byte, 1)); err != io.EOF { // the relay has left
		t.Fatal(n, err)
	}
	if ch := r.meet(nc.LocalAddr().String()); ch != nil {
		t.Error("there is somebody to give the run to")
	}
}

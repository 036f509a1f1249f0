package mysqlprof

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/connprof/connprof/handshake"
	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/internal/timing"
	"github.com/connprof/connprof/profiler"
)

// An explicit client knows when the handshake began and ended, because it calls it: the oracle for what is found passively.
type explicit struct {
	took  time.Duration
	state tls.ConnectionState
}

// connect reads the greeting, asks for TLS, times the handshake, and sends a login that the server refuses, so that tickets are read.
func connect(ctx context.Context, d *handshake.Dialer, addr string, cfg *tls.Config) (explicit, error) {
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return explicit{}, err
	}
	defer nc.Close()
	deadline, _ := ctx.Deadline()
	nc.SetDeadline(deadline)
	var h [4]byte
	if _, err := io.ReadFull(nc, h[:]); err != nil {
		return explicit{}, err
	}
	if _, err := io.CopyN(io.Discard, nc, int64(h[0])|int64(h[1])<<8); err != nil {
		return explicit{}, err
	}
	const caps = 1 | 1<<9 | 1<<11 | 1<<15 | 1<<19 // LONG_PASSWORD, PROTOCOL_41, SSL, SECURE_CONNECTION, PLUGIN_AUTH
	request := make([]byte, 32)
	binary.LittleEndian.PutUint32(request, caps)
	request[8] = 33
	if _, err := nc.Write(packet(1, request)); err != nil {
		return explicit{}, err
	}
	begin := time.Now()
	tc := tls.Client(nc, cfg)
	if err := tc.Handshake(); err != nil { // as the driver calls it; a context that can end costs a goroutine
		return explicit{}, err
	}
	e := explicit{took: time.Since(begin), state: tc.ConnectionState()}
	login := append(slices.Clone(request), "nobody\x00\x00mysql_native_password\x00"...)
	if _, err := tc.Write(packet(2, login)); err != nil {
		return explicit{}, err
	}
	_, err = tc.Read(make([]byte, 1024))
	return e, err
}

// compare makes n connections and returns how much longer the explicit time is than the passive one, sorted.
func compare(t *testing.T, s *mariadbtest.Server, n int, cfg *tls.Config) (differences []time.Duration, resumed int) {
	t.Helper()
	p := new(profiler.Profiler)
	d := &handshake.Dialer{Profiler: p, Endpoint: profiler.Endpoint{System: "mysql", Address: s.Addr}}
	wrong := 0
	for range n {
		c := p.NewConn(d.Endpoint, profiler.RolePool)
		ctx, cancel := context.WithTimeout(profiler.NewContext(t.Context(), c), 5*time.Second)
		e, err := connect(ctx, d, s.Addr, cfg)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		c.Ready(profiler.NoCaller)
		c.Closed(profiler.CloseUnknown, nil)
		cr := c.Create()
		got, want := cr.TLS, e.state
		if !got.Done || got.Version != want.Version || got.Cipher != want.CipherSuite || got.Resumed != want.DidResume ||
			got.HelloRetry != want.HelloRetryRequest || got.Group != group(want) {
			if wrong++; wrong < 4 {
				t.Errorf("seen %+v, the client says version %x cipher %x resumed %v retry %v group %v",
					got, want.Version, want.CipherSuite, want.DidResume, want.HelloRetryRequest, want.CurveID)
			}
		}
		if got.TicketsAsked != (cfg.ClientSessionCache != nil) {
			t.Errorf("asked for tickets %v, with the cache %v", got.TicketsAsked, cfg.ClientSessionCache)
		}
		if got.Resumed {
			resumed++
			if got.Tickets != profiler.TicketsYes {
				t.Errorf("resumed, but tickets are %v", got.Tickets)
			}
		} else if got.Version == tls.VersionTLS13 && got.Tickets == profiler.TicketsYes {
			t.Errorf("a TLS 1.3 ticket can't be seen from below, but tickets are yes") // C20
		}
		if sum := phaseSum(cr); sum != cr.Duration {
			t.Errorf("phases sum to %v, create took %v", sum, cr.Duration)
		}
		differences = append(differences, e.took-cr.Phases[profiler.TLS].Duration)
	}
	if wrong > 0 {
		t.Errorf("%d of %d connections were seen wrong", wrong, n)
	}
	slices.Sort(differences)
	return differences, resumed
}

// group is the one that was agreed in this handshake: a TLS 1.2 resumption agrees on none (RFC 5246 §7.3), and crypto/tls repeats the
// one of the session it resumes.
func group(cs tls.ConnectionState) tls.CurveID {
	if cs.DidResume && cs.Version <= tls.VersionTLS12 {
		return 0
	}
	return cs.CurveID
}

func phaseSum(cr *profiler.Create) (sum time.Duration) {
	for p := range profiler.Phases {
		sum += cr.Phases[p].Duration
	}
	return sum
}

type shape struct {
	name   string
	cfg    func(s *mariadbtest.Server) *tls.Config
	resume bool
}

var shapes = []shape{
	{"TLS 1.3", func(s *mariadbtest.Server) *tls.Config {
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "127.0.0.1"}
	}, false},
	{"TLS 1.3 resumed", func(s *mariadbtest.Server) *tls.Config {
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	}, true},
	{"TLS 1.2", func(s *mariadbtest.Server) *tls.Config {
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12}
	}, false},
	{"TLS 1.2 resumed", func(s *mariadbtest.Server) *tls.Config {
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	}, true},
}

func TestTLSFactsAreThoseOfTheClient(t *testing.T) {
	s := mariadbtest.Start(t)
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			_, resumed := compare(t, s, 25, sh.cfg(s))
			if want := map[bool]int{true: 24}[sh.resume]; resumed != want {
				t.Errorf("%d of 25 resumed, want %d", resumed, want)
			}
		})
	}
}

// The passive time of TLS against the explicit one, over 500 connections a shape: the median may differ by 10 µs. With TLS 1.2 the explicit
// one goes on after the last read, with what verifies it; on a busy machine that takes longer, so the best of three rounds counts.
func TestTimingOfThePassiveTLS(t *testing.T) {
	timing.Only(t)
	const bound = 10 * time.Microsecond
	s := mariadbtest.Start(t)
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			median := 2 * bound
			for round := 0; round < 3 && median.Abs() > bound; round++ {
				ds, _ := compare(t, s, 500, sh.cfg(s))
				median = ds[len(ds)/2]
				t.Logf("explicit minus passive: p5 %v, median %v, p95 %v, max %v", ds[len(ds)/20], median, ds[len(ds)*19/20], ds[len(ds)-1])
			}
			if median.Abs() > bound {
				t.Errorf("median difference %v, want at most %v", median, bound)
			}
		})
	}
}

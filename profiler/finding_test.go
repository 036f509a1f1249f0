package profiler

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
)

func finding(p *Profiler, id string) *Finding {
	r := p.Report()
	for i := range r.Findings {
		if r.Findings[i].ID == id {
			return &r.Findings[i]
		}
	}
	return nil
}

// used makes n connections with ops operations each, and closes them for a reason.
func used(p *Profiler, n, ops int, reason CloseReason) {
	for range n {
		c := p.NewConn(orders, RolePool)
		pass(5 * ms)
		c.Ready(noContext)
		for range ops {
			op(context.Background(), c, OpQuery, ms, 0, nil)
		}
		c.Closed(reason, nil)
	}
}

func TestChurnIsFoundAndItsReasonNamed(t *testing.T) {
	for _, tt := range []struct {
		name             string
		run              func(p *Profiler)
		evidence, advice string // "" for no finding
	}{
		{"few connections are no churn", func(p *Profiler) { used(p, 5, 1, CloseIdleLimit) }, "", ""},
		{"nor are many that serve many queries", func(p *Profiler) { used(p, 25, 40, CloseLifetime) }, "", ""},
		{"a reason that the pool doesn't tell", func(p *Profiler) { used(p, 25, 2, CloseError) },
			"25 connections for 50 queries (0.50 dials per query), 125ms spent on making them, 5ms each", "closes by reason say error 25"},
		{"the limit of idle connections", func(p *Profiler) {
			used(p, 25, 1, CloseIdleLimit)
			p.WatchPool("db.example:3306", func() PoolStats { return PoolStats{IdleLimitClosed: 25, WaitCount: 3} })
		}, "the pool closed 25 because of its limit of idle connections, 3 callers waited", "MaxIdleConns = MaxOpenConns"},
		{"deadlines shorter than the queries", func(p *Profiler) {
			used(p, 25, 1, CloseCanceled)
			for range 20 {
				c := p.NewConn(orders, RoleCancel)
				c.ReadyAlone(0)
			}
		}, "25 were closed because an operation on them was canceled or timed out, with 20 connections more for cancel requests",
			"CancelRequestContextWatcherHandler"},
		{"a pool for each request", func(p *Profiler) {
			for range 25 {
				stop := p.WatchPool("db.example:3306", func() PoolStats { return PoolStats{} })
				used(p, 1, 1, ClosePoolClosed)
				stop()
			}
		}, "25 pools were opened", "build the client once"},
	} {
		bubble(t, func(t *testing.T) {
			var p Profiler
			tt.run(&p)
			f := finding(&p, "pool_churn")
			if (f != nil) != (tt.evidence != "") {
				t.Errorf("%s: found %+v", tt.name, f)
			} else if f != nil && (!strings.Contains(f.Evidence, tt.evidence) || !strings.Contains(f.Advice, tt.advice)) {
				t.Errorf("%s: %s; %s", tt.name, f.Evidence, f.Advice)
			}
		})
	}
}

func TestHelloRetryIsFoundWhereItIsTheRule(t *testing.T) {
	for retries, want := range map[int]bool{0: false, 1: false, 2: true, 4: true} {
		var p Profiler
		for i := range 4 {
			c := p.NewConn(orders, RolePool)
			c.Update(func(cr *Create) { cr.TLS = TLSInfo{Done: true, Version: 0x0304, HelloRetry: i < retries} })
			c.Ready(noContext)
		}
		if f := finding(&p, "hello_retry"); (f != nil) != want {
			t.Errorf("%d of 4: %+v", retries, f)
		}
	}
}

func TestFailedCreatesAreFoundWithAdviceForTheirPhase(t *testing.T) {
	for _, tt := range []struct {
		phase  Phase
		err    error
		cause  error
		advice string
	}{
		{Hook, errors.New("no token"), nil, "own code before the dial"},
		{Resolve, errors.New("no such host"), nil, "host name"},
		{Connect, fmt.Errorf("dial: %w", syscall.ECONNREFUSED), nil, "nothing listens there"},
		{Connect, context.DeadlineExceeded, nil, "firewalls"},
		{Attempts, errors.New("odd"), nil, "can be reached"},
		{Greet, errors.New("invalid connection"), io.EOF, "without a greeting"},
		{Greet, context.DeadlineExceeded, nil, "said nothing"},
		{Greet, errors.New("malformed packet"), nil, "not the protocol's"},
		{TLS, x509.UnknownAuthorityError{}, nil, "give it the CA"},
		{TLS, x509.CertificateInvalidError{Reason: x509.Expired}, nil, "expired"},
		{TLS, x509.HostnameError{Certificate: &x509.Certificate{}}, nil, "another name"},
		{TLS, context.DeadlineExceeded, nil, "speaks TLS"},
		{TLS, errors.New("tls: first record does not look like a TLS handshake"), nil, "doesn't speak TLS"},
		{TLS, errors.New("remote error: tls: protocol version not supported"), nil, "share a TLS version"},
		{Verify, errors.New("ocsp"), nil, "revocation"},
		{Hello, io.EOF, nil, "whether it wants TLS"},
		{Auth, errors.New("denied"), nil, "user, password"},
		{AuthSetup, context.Canceled, nil, "in time"},
		{Setup, errors.New("unknown system variable"), nil, "session variables"},
		{Other, errors.New("odd"), nil, "client's options"},
	} {
		var p Profiler
		c := p.NewConn(orders, RolePool)
		c.Update(func(cr *Create) { cr.Failed, cr.Cause = tt.phase, tt.cause })
		c.Fail(noContext, tt.err)
		f := finding(&p, "create_failed")
		if f == nil || f.Severity != "critical" || !strings.Contains(f.Advice, tt.advice) || !strings.Contains(f.Evidence, "by phase: "+tt.phase.String()+" 1") {
			t.Errorf("%v in %v: %+v, want advice with %q", tt.err, tt.phase, f, tt.advice)
		}
	}
	if (*Create)(nil).Advice() != "" || new(Create).Advice() != "" {
		t.Error("there is advice where nothing failed")
	}
}

func TestAFindingOutlivesTheFailuresThatAreKept(t *testing.T) {
	var p Profiler
	for range 3 {
		p.NewConn(orders, RolePool).Ready(noContext)
	}
	c := p.NewConn(orders, RolePool)
	c.Update(func(cr *Create) { cr.Failed = Auth })
	c.Fail(noContext, errors.New("denied"))
	for range maxFailures {
		p.NewConn(Endpoint{System: "mysql", Address: "down:3306"}, RolePool).Fail(noContext, io.EOF)
	}
	r := p.Report()
	for _, f := range r.Findings {
		if f.Subject == orders.Address && (f.Severity != "warning" || !strings.Contains(f.Advice, "user, password")) {
			t.Errorf("got %+v", f)
		}
	}
	if len(r.Findings) != 2 {
		t.Errorf("%d findings", len(r.Findings))
	}
}

func TestNumbersForPeopleHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 1: "0.0000 ms", 1234: "0.0012 ms", 99_940: "0.0999 ms", 99_960: "0.100 ms", 123_456: "0.123 ms", 999_600: "1.00 ms",
		1_234_567: "1.23 ms", 9_996_000: "10.0 ms", 99_960_000: "100 ms", 12_345_600_000: "12346 ms", -1_500_000: "-1.50 ms",
	} {
		if got := Millis(d); got != want {
			t.Errorf("%d ns is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]time.Duration{0: 0, 999: 999, 1234: 1230, -98765: -98800, 1<<63 - 1: 9220000000000000000} {
		if got := round(d); got != want {
			t.Errorf("round(%d) = %d, want %d", d, got, want)
		}
	}
}

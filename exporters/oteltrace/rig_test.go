package oteltrace_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/profiler"
)

const ms = time.Millisecond

var noCaller context.Context // what a pool passes that makes a connection by itself

var shop = profiler.Endpoint{System: "mysql", Address: "db.internal:3306", Namespace: "shop", Pool: "orders"}

// A rig is a Profiler whose one Sink makes spans that a recorder keeps.
type rig struct {
	p      profiler.Profiler
	sink   *oteltrace.Sink
	spans  *tracetest.SpanRecorder
	tp     *sdktrace.TracerProvider
	tracer trace.Tracer // the program's own
	start  time.Time
}

func newRig(opts ...sdktrace.TracerProviderOption) *rig {
	r := &rig{spans: tracetest.NewSpanRecorder(), start: time.Now()}
	r.tp = sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(r.spans))...)
	r.tracer = r.tp.Tracer("program")
	r.sink = oteltrace.New(r.tp)
	r.p.Sinks = []profiler.Sink{r.sink}
	return r
}

// A step is a phase that takes d.
type step struct {
	p profiler.Phase
	d time.Duration
}

var (
	plain   = []step{{profiler.Resolve, 2 * ms}, {profiler.Connect, 3 * ms}, {profiler.Greet, 1 * ms}, {profiler.Auth, 4 * ms}}
	secured = []step{
		{profiler.Resolve, 2 * ms}, {profiler.Connect, 3 * ms}, {profiler.Greet, 1 * ms}, {profiler.TLS, 8 * ms},
		{profiler.Verify, 0}, {profiler.AuthSetup, 4 * ms}, {profiler.Other, 2 * ms},
	}
)

// make does what a dialer and a pool tell a Conn, in real (or fake) time, up to the hand-over.
func (r *rig) make(e profiler.Endpoint, role profiler.Role, steps ...step) *profiler.Conn {
	c := r.p.NewConn(e, role)
	for _, s := range steps {
		time.Sleep(s.d)
		c.Cut(s.p, profiler.Now())
	}
	c.Update(func(cr *profiler.Create) {
		cr.Wire.Transport, cr.Wire.Peer = profiler.TransportTCP, "10.1.2.3:3306"
		for _, s := range steps {
			switch s.p {
			case profiler.Resolve:
				cr.Resolved = profiler.Resolved{Host: "db.internal", Answers: 2, Lookups: 1}
			case profiler.TLS:
				cr.TLS = profiler.TLSInfo{
					Seen: true, Done: true, Version: tls.VersionTLS13, Cipher: tls.TLS_AES_128_GCM_SHA256, Group: tls.X25519MLKEM768, HelloRetry: true,
				}
				cr.TCP = profiler.TCPInfo{Known: true, RTT: 2500 * time.Microsecond, Retransmits: 1}
			}
		}
	})
	return c
}

func (r *rig) pooled(ctx context.Context, steps ...step) *profiler.Conn {
	c := r.make(shop, profiler.RolePool, steps...)
	c.Ready(ctx)
	return c
}

// query runs a query whose first response takes d, and whose rows take as long again.
func query(ctx context.Context, c *profiler.Conn, d time.Duration) {
	o := c.Begin(ctx, profiler.OpQuery, profiler.Now())
	o.Text = "SELECT name FROM cart WHERE id = 42"
	time.Sleep(d)
	o.Responded(ctx, profiler.Now(), nil)
	time.Sleep(d)
	o.End(ctx, profiler.Now(), nil)
}

// ended returns the spans by name, having checked what holds for all traces: no child starts before its parent or is sampled without it,
// and all links lead to a span that was recorded.
func (r *rig) ended(t *testing.T) map[string][]sdktrace.ReadOnlySpan {
	t.Helper()
	byName := map[string][]sdktrace.ReadOnlySpan{}
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range r.spans.Ended() {
		byName[s.Name()] = append(byName[s.Name()], s)
		byID[s.SpanContext().SpanID()] = s
	}
	for _, s := range r.spans.Ended() {
		if s.EndTime().UnixNano() < s.StartTime().UnixNano() {
			t.Errorf("%s ends before it starts", s.Name())
		}
		for _, l := range s.Links() {
			if byID[l.SpanContext.SpanID()] == nil {
				t.Errorf("%s has a link to a span that nobody recorded", s.Name())
			}
		}
		if !s.Parent().IsValid() || s.Parent().IsRemote() {
			continue
		}
		parent := byID[s.Parent().SpanID()]
		if parent == nil {
			t.Errorf("%s has a parent that was not recorded", s.Name())
		} else if s.StartTime().UnixNano() < parent.StartTime().UnixNano() {
			t.Errorf("%s starts %v before its parent %s", s.Name(), parent.StartTime().Sub(s.StartTime()), parent.Name())
		}
	}
	return byName
}

// tree prints all traces, one span a line: kind, name, begin and duration in milliseconds, error, links.
func (r *rig) tree(t *testing.T) string {
	t.Helper()
	r.ended(t)
	return "\n" + tree(r.spans.Ended(), func(s sdktrace.ReadOnlySpan) string {
		return fmt.Sprintf(" %g+%g", millis(s.StartTime().UnixNano()-r.start.UnixNano()), millis(s.EndTime().UnixNano()-s.StartTime().UnixNano()))
	})
}

func millis(ns int64) float64 { return float64(ns) / 1e6 }

func tree(spans []sdktrace.ReadOnlySpan, times func(sdktrace.ReadOnlySpan) string) string {
	children := map[trace.SpanID][]sdktrace.ReadOnlySpan{}
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		children[s.Parent().SpanID()] = append(children[s.Parent().SpanID()], s)
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var b strings.Builder
	var print func(id trace.SpanID, depth int)
	print = func(id trace.SpanID, depth int) {
		list := children[id]
		sort.SliceStable(list, func(i, j int) bool { return list[i].StartTime().UnixNano() < list[j].StartTime().UnixNano() })
		for _, s := range list {
			fmt.Fprintf(&b, "%s%s%s", strings.Repeat("  ", depth), s.Name(), times(s))
			if s.SpanKind() != trace.SpanKindInternal {
				fmt.Fprintf(&b, " [%s]", s.SpanKind())
			}
			if st := s.Status(); st.Code == codes.Error {
				fmt.Fprintf(&b, " error: %s", st.Description)
			}
			for _, l := range s.Links() {
				fmt.Fprintf(&b, " → %s", names[l.SpanContext.SpanID()])
			}
			b.WriteByte('\n')
			print(s.SpanContext().SpanID(), depth+1)
		}
	}
	print(trace.SpanID{}, 0)
	return b.String()
}

func attributesOf(s sdktrace.ReadOnlySpan) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	for _, kv := range s.Attributes() {
		m[kv.Key] = kv.Value.AsInterface()
	}
	return m
}

package handshake

import (
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// scriptedConn plays the other side of a flow: each Read returns what the flow says was read, each Write goes out whole.
type scriptedConn struct {
	net.Conn // nil: nothing else is called
	next     []byte
}

func (c *scriptedConn) Write(b []byte) (int, error) { return len(b), nil }
func (c *scriptedConn) Close() error                { return nil }
func (c *scriptedConn) Read(b []byte) (int, error) {
	if len(c.next) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.next)
	c.next = c.next[n:]
	return n, nil
}

// made is what a watch of one whole create says, the times apart.
type made struct {
	Phases []string
	Failed profiler.Phase
	TLS    profiler.TLSInfo
	Wire   profiler.Wire
}

var errReplay = errors.New("the replay ends with an error")

// replayed counts all replays: a Profiler of each one's own would be most of their time.
var replayed profiler.Profiler

// make replays the flow through a connection, as a driver uses one, and ends the create with err.
func (f tlsFlow) make(d *Dialer, err error) (made, *profiler.Create) {
	c := replayed.NewConn(d.Endpoint, profiler.RolePool)
	defer c.Closed(profiler.CloseUnknown, nil)
	inner := new(scriptedConn)
	ret := profiler.Now()
	w := &watch{c: c, d: d, nc: inner, dialed: ret, lastIO: ret}
	c.Watch(w)
	nc := newConn(inner, w)
	for _, chunk := range f {
		if chunk.out {
			nc.Write(chunk.b)
			continue
		}
		inner.next = chunk.b
		for buf := make([]byte, max(1, len(chunk.b))); len(inner.next) > 0; {
			nc.Read(buf)
		}
	}
	if err != nil {
		c.Fail(profiler.NoCaller, err)
	} else {
		c.Ready(profiler.NoCaller)
	}
	cr := c.Create()
	m := made{Failed: cr.Failed, TLS: cr.TLS, Wire: cr.Wire}
	m.TLS.HelloWritten, m.TLS.ServerHello, m.Wire.AuthWait = 0, 0, 0
	for p := range profiler.Phases {
		if cr.Phases[p].Present && p != profiler.Other {
			m.Phases = append(m.Phases, p.String())
		}
	}
	return m, cr
}

// checkAnyCreate holds for every flow and every end of its create: the watch says the same for each cut of the bytes, and its phases sum
// to the create.
func checkAnyCreate(t *testing.T, flow tlsFlow, d *Dialer, err error, seed uint64) made {
	t.Helper()
	want, cr := flow.make(d, err)
	if sum := phaseSum(cr); sum != cr.Duration {
		t.Fatalf("phases sum to %v, create took %v", sum, cr.Duration)
	}
	if (err == nil) != (want.Failed == profiler.NoPhase) {
		t.Fatalf("error %v, failed in %v", err, want.Failed)
	}
	for name, cut := range flow.cuts(seed) {
		if got, _ := cut.make(d, err); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	return want
}

// splits calls f with the flow cut at every byte, one cut at a time.
func (f tlsFlow) splits(each func(chunk, at int, split tlsFlow)) {
	for i, c := range f {
		for at := 1; at < len(c.b); at++ {
			a, b := c, c
			a.b, b.b = c.b[:at], c.b[at:]
			each(i, at, slices.Concat(f[:i], tlsFlow{a, b}, f[i+1:]))
		}
	}
}

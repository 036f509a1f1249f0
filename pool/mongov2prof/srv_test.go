package mongov2prof

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// The look-ups of mongodb+srv are no dial's: Connect times them, whether they succeed or not.
func TestConnectTimesLookups(t *testing.T) {
	const delay = 5 * time.Millisecond
	old := net.DefaultResolver
	defer func() { net.DefaultResolver = old }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(delay) // a slow name server
		return nil, errors.New("no name server")
	}}
	p := new(profiler.Profiler)
	if _, err := Connect(p, "mongodb+srv://db.example.com/?appName=x"); err == nil {
		t.Fatal("connected without a name server")
	}
	e := p.Report().Endpoint("db.example.com", profiler.RoleOther)
	if e == nil || e.FailedIn["resolve"] != 1 || e.Live != 0 {
		t.Fatalf("report %+v", e)
	}
	if m := e.Measure(profiler.Measure(profiler.Resolve), profiler.Failed); m == nil || m.Max < delay {
		t.Errorf("resolve %+v", m)
	}
	if p.Report().Endpoint("", profiler.RolePool) != nil {
		t.Error("a look-up is a pool's connection")
	}
}

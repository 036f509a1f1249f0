package mysqlprof

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/connprof/connprof/internal/mariadbtest"
	"github.com/connprof/connprof/profiler"
)

// The driver turns keepalive on where it finds a *net.TCPConn, which it doesn't under a Dialer: ours does it then.
func TestKeepAliveIsOnAsWithoutUs(t *testing.T) {
	s := mariadbtest.Start(t)
	for _, p := range []*profiler.Profiler{nil, new(profiler.Profiler)} {
		var tcp *net.TCPConn
		cfg := config(s, false)
		cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, addr)
			tcp, _ = nc.(*net.TCPConn)
			return nc, err
		}
		db, err := OpenConfig(p, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Ping(); err != nil {
			t.Fatal(err)
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var on int
		if cerr := raw.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE) }); cerr != nil || err != nil || on == 0 {
			t.Errorf("profiled %v: keepalive is %d; %v, %v", p != nil, on, cerr, err)
		}
	}
}

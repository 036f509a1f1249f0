package handshake

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// What a program finds on the connection, beyond net.Conn, of what the inner one has.
func TestWhichMethodsOfASocketAreKept(t *testing.T) {
	kept := []string{"CloseRead", "CloseWrite", "SyscallConn"}
	notKept := map[string][]string{
		"tcp": {
			"File", "MultipathTCP", "ReadFrom", "SetKeepAlive", "SetKeepAliveConfig", "SetKeepAlivePeriod", "SetLinger", "SetNoDelay",
			"SetReadBuffer", "SetWriteBuffer", "WriteTo",
		},
		"unix": {
			"File", "ReadFrom", "ReadFromUnix", "ReadMsgUnix", "SetReadBuffer", "SetWriteBuffer", "WriteMsgUnix", "WriteTo", "WriteToUnix",
		},
	}
	for network, not := range notKept {
		addr := "127.0.0.1:0"
		if network == "unix" {
			addr = filepath.Join(t.TempDir(), "s")
		}
		ln, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		var inner net.Conn
		c := new(profiler.Profiler).NewConn(profiler.Endpoint{}, profiler.RolePool)
		d := Dialer{DialFunc: func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
			nc, err = new(net.Dialer).DialContext(ctx, network, addr)
			inner = nc
			return nc, err
		}}
		nc, err := d.DialContext(profiler.NewContext(t.Context(), c), network, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		for _, name := range slices.Concat(kept, not) {
			_, has := reflect.TypeOf(inner).MethodByName(name)
			_, ours := reflect.TypeOf(nc).MethodByName(name)
			if want := slices.Contains(kept, name); !has || ours != want {
				t.Errorf("%s: %s: inner %v, ours %v, want %v", network, name, has, ours, want)
			}
		}
		if n, ok := nc.(interface{ NetConn() net.Conn }); !ok || n.NetConn() != inner {
			t.Errorf("%s: NetConn is not the inner connection", network)
		}
		for i := range reflect.TypeFor[net.Conn]().NumMethod() {
			if name := reflect.TypeFor[net.Conn]().Method(i).Name; !reflect.ValueOf(nc).MethodByName(name).IsValid() {
				t.Errorf("%s: no %s", network, name)
			}
		}
		// io.Copy, with which pgx and lib/pq read a connection to its end, asks for both.
		if _, ok := nc.(io.WriterTo); ok {
			t.Errorf("%s: an io.WriterTo, past which reads are not seen", network)
		}
		if _, ok := nc.(io.ReaderFrom); ok {
			t.Errorf("%s: an io.ReaderFrom, past which writes are not seen", network)
		}
	}
}

package mongov2prof

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
)

func TestAnotherProtocolOnThePortHasItsClass(t *testing.T) {
	speaks := func(asked bool, words string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer nc.Close()
					if asked {
						nc.Read(make([]byte, 8192))
					}
					io.WriteString(nc, words)
					io.Copy(io.Discard, nc)
				}()
			}
		}()
		return l.Addr().String()
	}
	web := speaks(true, "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n")
	mysql := "\x4a\x00\x00\x00\x0a8.0.36\x00\x01\x00\x00\x00" + strings.Repeat("x", 62)
	for _, tt := range []struct {
		name, addr string
		tls        bool
		want       profiler.Protocol
		phase      profiler.Phase
	}{
		{"HTTP", web, false, profiler.ProtocolHTTP, profiler.Hello},
		{"HTTP, TLS wanted", web, true, profiler.ProtocolHTTP, profiler.TLS},
		{"TLS", speaks(true, "\x15\x03\x01\x00\x02\x02\x46"), false, profiler.ProtocolTLS, profiler.Hello},
		{"MySQL", speaks(false, mysql), false, profiler.ProtocolMySQL, profiler.Hello},
		{"MySQL, TLS wanted", speaks(false, mysql), true, profiler.ProtocolMySQL, profiler.TLS},
		{"SSH", speaks(false, "SSH-2.0-OpenSSH_9.2p1\r\n"), false, profiler.ProtocolSSH, profiler.Hello},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := firstFailure(t, "mongodb://"+tt.addr+"/?serverSelectionTimeoutMS=100&connectTimeoutMS=2000", tt.tls)
			if f.Class != "protocol" || f.Protocol != tt.want.String() || f.Phase != tt.phase.String() {
				t.Errorf("%+v; want class protocol, %v in %v", f, tt.want, tt.phase)
			}
		})
	}
	t.Run("a server that closes is no other protocol", func(t *testing.T) {
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
				nc.Read(make([]byte, 4096))
				nc.Write([]byte{0x52, 0, 0, 0, 0x0a, 0x30, 0, 0, 5}) // the beginning of a reply
				nc.Close()
			}
		}()
		if f := firstFailure(t, "mongodb://"+l.Addr().String()+"/?serverSelectionTimeoutMS=100", false); f.Class != "closed" || f.Protocol != "" {
			t.Errorf("%+v; want class closed", f)
		}
	})
	t.Run("a server that is one", func(t *testing.T) {
		s := mongotest.Start(t, mongotest.Options{})
		var seen []profiler.Wire
		p := &profiler.Profiler{Sinks: []profiler.Sink{sinkFunc(func(e profiler.Event) {
			if e.Kind == profiler.KindCreate && e.Conn.Role() == profiler.RolePool {
				seen = append(seen, e.Conn.Create().Wire)
			}
		})}}
		c, err := mongo.Connect(Instrument(p, options.Client().ApplyURI(s.URI("maxPoolSize=1"))))
		if err != nil {
			t.Fatal(err)
		}
		err = c.Ping(t.Context(), nil)
		c.Disconnect(context.Background())
		if err != nil || len(seen) != 1 || seen[0].Protocol != profiler.ProtocolMongoDB || seen[0].Mismatch {
			t.Errorf("%v, %+v", err, seen)
		}
	})
}

// firstFailure is the first create that failed of a client of uri.
func firstFailure(t *testing.T, uri string, secure bool) profiler.Failure {
	t.Helper()
	p := new(profiler.Profiler)
	if secure {
		uri += "&tls=true&tlsInsecure=true"
	}
	c, err := mongo.Connect(Instrument(p, options.Client().ApplyURI(uri)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context(), nil); err == nil {
		t.Fatal("the ping was answered")
	}
	for deadline := time.Now().Add(10 * time.Second); len(p.Report().Failures) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	c.Disconnect(context.Background())
	fs := p.Report().Failures
	if len(fs) == 0 {
		t.Fatal("no create failed")
	}
	return fs[0]
}

type sinkFunc func(profiler.Event)

func (f sinkFunc) Record(_ context.Context, e profiler.Event) { f(e) }

package handshake

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// spoiling flips a bit of the record after its own ChangeCipherSpec: the Finished of TLS 1.2.
type spoiling struct {
	net.Conn
	ccs bool
}

func (s *spoiling) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	for i := 0; i+5 <= len(b); {
		size := int(b[i+3])<<8 | int(b[i+4])
		if s.ccs {
			b[i+4+size] ^= 1
			s.ccs = false
		}
		s.ccs = b[i] == 20
		i += 5 + size
	}
	return s.Conn.Write(b)
}

// What the client does not take of the handshake's last message is a failure of TLS, though all of that message had come.
func TestAServersFinishedThatIsWrongIsTLS(t *testing.T) {
	for name, spoil := range map[string]bool{"as it is": false, "spoiled": true} {
		t.Run(name, func(t *testing.T) {
			p := new(profiler.Profiler)
			d := &Dialer{Profiler: p, Endpoint: profiler.Endpoint{System: "mongodb"}, DialFunc: func(context.Context, string, string) (net.Conn, error) {
				c, s := net.Pipe()
				go func() {
					defer s.Close()
					var end net.Conn = s
					if spoil {
						end = &spoiling{Conn: s}
					}
					tc := tls.Server(end, &tls.Config{Certificates: []tls.Certificate{ecdsaCert()}, MaxVersion: tls.VersionTLS12})
					if tc.Handshake() == nil {
						tc.Read(make([]byte, 1)) // the client's alert, or its first word
					}
				}()
				return c, nil
			}}
			c := p.NewConn(d.Endpoint, profiler.RolePool)
			nc, err := d.DialContext(profiler.NewContext(t.Context(), c), "tcp", "db:27017")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			tc := tls.Client(nc, &tls.Config{ServerName: "localhost", RootCAs: tlsPool(ecdsaCert()), MaxVersion: tls.VersionTLS12})
			err = tc.Handshake()
			if (err != nil) != spoil {
				t.Fatal(err)
			}
			if err == nil {
				err = context.Canceled // before the first word
			}
			c.Fail(profiler.NoCaller, err)
			want := profiler.Verify
			if spoil {
				want = profiler.TLS
			}
			cr := c.Create()
			if cr.Failed != want || cr.TLS.Done == spoil || cr.Phases[profiler.Verify].Present == spoil {
				t.Errorf("%v: failed in %v, done %v, phases %v; want %v", err, cr.Failed, cr.TLS.Done, cr.Phases, want)
			}
		})
	}
}

package handshake

import (
	"context"
	"net"
	"time"
)

// Dial is DialContext without a context. With DialTimeout it makes a *Dialer fit where github.com/lib/pq asks for a dialer; that driver
// prefers DialContext, whose context finds its profiler.Conn.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout is DialContext with a limit on the dial alone, look-up included; as in net.Dialer, a timeout of 0 is none.
func (d *Dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return d.DialContext(ctx, network, address)
}

package handshake

import (
	"context"
	"net"
	"net/netip"

	"github.com/connprof/connprof/profiler"
)

// LookupHost looks host up with LookupFunc under ctx and returns its result. It fits the hook of pgx, which asks before it dials: once for
// each host and way to try it. The time is Resolve; that of an IP address, which needs no look-up, is not. It does nothing else for a ctx
// without a profiler.Conn whose create goes on.
func (d *Dialer) LookupHost(ctx context.Context, host string) ([]string, error) {
	lookup := d.LookupFunc
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	c := profiler.FromContext(ctx)
	if c == nil {
		return lookup(ctx, host)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return lookup(ctx, host)
	}
	entry := profiler.Now()
	if d.Hook {
		c.Cut(profiler.Hook, entry)
	} else {
		c.Cut(profiler.Other, entry)
	}
	addrs, err := lookup(ctx, host)
	c.Cut(profiler.Resolve, profiler.Now())
	c.Update(func(cr *profiler.Create) {
		cr.Resolved.Host = host
		cr.Resolved.Lookups++
		cr.Resolved.Answers += len(addrs)
		if err != nil { // of the create, unless another host is dialed
			cr.Failed, cr.Cause = profiler.Resolve, err
		}
	})
	return addrs, err
}

package wan

import (
	"context"
	"net"
	"net/http/httptrace"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
)

// DialContext connects from the client side of the link, as net.Dialer's method of that name does over the real network.
// Network is "tcp" or "tcp4", address an IPv4 address and a port; only FarIP can be reached.
//
// It returns when the SYN's answer has come back, a round trip later; when ctx ends, in which case nothing stays behind;
// or when the link is closed. The ConnectStart and ConnectDone hooks of an httptrace.ClientTrace in ctx are called around
// the connect, with the arguments that net.Dialer gives them. Every error is a *net.OpError with Op "dial"; a refusal
// matches syscall.ECONNREFUSED, an ended context ctx.Err().
func (l *Link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	target, err := parseTarget(network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	remote := net.TCPAddrFromAddrPort(target)
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err}
	}
	if l.ctx.Err() != nil {
		return fail(net.ErrClosed)
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(network, address)
	}
	c, err := l.connect(ctx, target)
	if err == nil && l.ctx.Err() != nil { // the stack reports a connect that the link's Close has cut as done
		_ = c.Close()
		err = net.ErrClosed
	}
	if err != nil {
		_, err = fail(systemError("connect", err))
	}
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(network, address, err)
	}
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

func (l *Link) connect(ctx context.Context, target netip.AddrPort) (*gonet.TCPConn, error) {
	to := tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(target.Addr().As4()), Port: target.Port()}
	return gonet.DialContextTCP(ctx, l.near, to, ipv4.ProtocolNumber)
}

func parseTarget(network, address string) (netip.AddrPort, error) {
	if network != "tcp" && network != "tcp4" {
		return netip.AddrPort{}, net.UnknownNetworkError(network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.AddrPort{}, &net.AddrError{Err: "the emulated network knows only IP addresses and port numbers", Addr: address}
	}
	if !target.Addr().Unmap().Is4() {
		return netip.AddrPort{}, &net.AddrError{Err: "the emulated network has no IPv6", Addr: address}
	}
	return netip.AddrPortFrom(target.Addr().Unmap(), target.Port()), nil
}

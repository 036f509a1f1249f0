package wan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// NearIP and FarIP are the addresses of the two ends of every Link: clients dial from NearIP, servers are seen at FarIP.
const (
	NearIP = "10.77.0.1"
	FarIP  = "10.77.0.2"
)

// nicID numbers the only network interface of each stack.
const nicID tcpip.NICID = 1

// Link is an emulated network with a client side and a server side. Its methods may be called concurrently.
type Link struct {
	rtt       time.Duration
	near, far *stack.Stack
	cables    [2]*cable

	ctx    context.Context // ends when Close begins; bounds the relays' dials to real servers
	cancel context.CancelFunc
	relays sync.WaitGroup

	// mu guards what is below.
	mu      sync.Mutex
	closed  bool
	targets map[uint16]string // port at FarIP → address of the real server
}

// New makes a link on which every packet takes rtt/2 each way, so that a request answered at once takes rtt.
// An rtt of 0 leaves only the stacks' own cost (about 0.2 ms); a negative one is an error.
// The link runs goroutines until Close.
func New(rtt time.Duration) (*Link, error) {
	if rtt < 0 {
		return nil, fmt.Errorf("wan: new: negative round trip time %v", rtt)
	}
	nearPlug, farPlug := newPlug(), newPlug()
	forth, err := newCable(rtt/2, nearPlug, farPlug)
	if err != nil {
		return nil, fmt.Errorf("wan: new: %w", err)
	}
	back, err := newCable(rtt/2, farPlug, nearPlug)
	if err != nil {
		forth.stop()
		return nil, fmt.Errorf("wan: new: %w", err)
	}
	l := &Link{rtt: rtt, cables: [2]*cable{forth, back}, targets: make(map[uint16]string)}
	l.ctx, l.cancel = context.WithCancel(context.Background())

	if l.near, err = newStack(nearPlug, NearIP, FarIP); err == nil {
		l.far, err = newStack(farPlug, FarIP, NearIP)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("wan: new: %w", err)
	}
	requests := tcp.NewForwarder(l.far, 0, maxHandshakes, l.accept)
	l.far.SetTransportProtocolHandler(tcp.ProtocolNumber, requests.HandlePacket)
	return l, nil
}

// RTT returns the round-trip time the link was made with.
func (l *Link) RTT() time.Duration { return l.rtt }

// Close takes the link down and waits until its goroutines have ended; only then does it return, always nil.
// Connections still open are aborted at both ends: reads and writes on them fail. A second Close does nothing.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()

	l.cancel()
	for _, c := range l.cables {
		c.stop() // first: from here on no packet can start a new relay
	}
	for _, s := range []*stack.Stack{l.near, l.far} {
		if s != nil {
			s.Close()
		}
	}
	l.relays.Wait()
	for _, s := range []*stack.Stack{l.near, l.far} {
		if s != nil {
			s.Wait()
		}
	}
	return nil
}

// newStack makes a TCP over IPv4 stack with one interface, that knows a way to its peer and to nowhere else.
func newStack(plug *plug, self, peer string) (*stack.Stack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	// The stack must add no delay of its own: no Nagle, and selective acknowledgements should a queue ever overflow.
	// TIME_WAIT guards against late duplicates, which a cable that keeps the order can't deliver; a short one bounds
	// the memory of a run with thousands of connections.
	nagle, sack, timeWait := tcpip.TCPDelayEnabled(false), tcpip.TCPSACKEnabled(true), tcpip.TCPTimeWaitTimeoutOption(time.Second)
	for _, option := range []tcpip.SettableTransportProtocolOption{&nagle, &sack, &timeWait} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			s.Destroy()
			return nil, stackError("set TCP option", err)
		}
	}
	if err := s.CreateNIC(nicID, plug); err != nil {
		s.Destroy()
		return nil, stackError("create interface", err)
	}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: ipAddress(self).WithPrefix()}
	if err := s.AddProtocolAddress(nicID, address, stack.AddressProperties{}); err != nil {
		s.Destroy()
		return nil, stackError("add address", err)
	}
	hostRoute := tcpip.AddressWithPrefix{Address: ipAddress(peer), PrefixLen: header.IPv4AddressSizeBits}.Subnet()
	s.SetRouteTable([]tcpip.Route{{Destination: hostRoute, NIC: nicID}})
	return s, nil
}

func ipAddress(ip string) tcpip.Address { return tcpip.AddrFromSlice(net.ParseIP(ip).To4()) }

func stackError(doing string, err tcpip.Error) error { return errors.New(doing + ": " + err.String()) }

package wan

import (
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	mtu = 1500 // Ethernet's, so that a certificate chain takes as many packets as it would outside
	// maxInFlight is how many packets a cable holds at most. Like a router it drops what comes on top; TCP sends it again.
	maxInFlight = 8192
)

// plug is the network interface of one stack: what the stack sends goes into the cable, what the cable delivers goes
// into the stack. The embedded endpoint gives the second half and the answers that never change.
type plug struct {
	*channel.Endpoint
	out *cable
}

var _ stack.LinkEndpoint = (*plug)(nil)

func newPlug() *plug {
	endpoint := channel.New(0, mtu, "")
	// Nothing can flip a bit on the way, so neither side spends time on checksums.
	endpoint.LinkEPCapabilities = stack.CapabilityTXChecksumOffload | stack.CapabilityRXChecksumOffload
	return &plug{Endpoint: endpoint}
}

// WritePackets puts packets on the cable. It never blocks, because the stack calls it with connections locked.
func (p *plug) WritePackets(packets stack.PacketBufferList) (int, tcpip.Error) {
	due := time.Now().Add(p.out.delay)
	for _, packet := range packets.AsSlice() {
		p.out.send(parcel{due: due, data: packet.ToBuffer()})
	}
	return packets.Len(), nil
}

// parcel is a packet on its way.
type parcel struct {
	due  time.Time
	data buffer.Buffer
}

// cable is one direction of a link. The delay is the same for every packet, so a queue in order of sending is also in
// order of arrival, and one goroutine that sleeps until the first one is due serves them all.
type cable struct {
	delay    time.Duration
	to       *plug
	queue    chan parcel
	sleeper  sleeper
	stopping chan struct{}
	stopOnce sync.Once
	stopped  chan struct{}
}

func newCable(delay time.Duration, from, to *plug) (*cable, error) {
	c := &cable{
		delay: delay, to: to, queue: make(chan parcel, maxInFlight),
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
	if err := c.sleeper.open(); err != nil {
		return nil, err
	}
	from.out = c
	go c.run()
	return c, nil
}

func (c *cable) send(p parcel) {
	select {
	case c.queue <- p:
	default:
		p.data.Release()
	}
}

func (c *cable) run() {
	defer close(c.stopped)
	for {
		select {
		case <-c.stopping:
			return
		case p := <-c.queue:
			c.sleeper.sleepUntil(p.due)
			packet := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: p.data})
			c.to.InjectInbound(ipv4.ProtocolNumber, packet)
			packet.DecRef()
		}
	}
}

// stop ends the cable's goroutine and waits for it. Packets on their way are lost.
func (c *cable) stop() {
	c.stopOnce.Do(func() {
		close(c.stopping)
		c.sleeper.close()
	})
	<-c.stopped
}

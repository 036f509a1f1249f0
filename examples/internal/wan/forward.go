package wan

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// maxHandshakes bounds the connections being opened at one time; a SYN above it is dropped, and sent again.
const maxHandshakes = 1024

// Forward makes the server at realAddr (host:port, TCP) reachable through the link and returns the address to dial with
// DialContext: FarIP with the same port, or the next free one where that port already leads elsewhere. The same realAddr
// always gets the same answer. Nothing is dialed yet, and the real server may be started later: each connection through
// the link dials it when the SYN arrives and is refused if the real server refuses.
func (l *Link) Forward(realAddr string) (virtualAddr string, err error) {
	_, service, err := net.SplitHostPort(realAddr)
	if err != nil {
		return "", fmt.Errorf("wan: forward: %w", err)
	}
	number, err := strconv.ParseUint(service, 10, 16)
	if err != nil || number == 0 {
		return "", fmt.Errorf("wan: forward: %s: the port must be a number from 1 to 65535", realAddr)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", fmt.Errorf("wan: forward: %w", net.ErrClosed)
	}
	for first, port := uint16(number), uint16(number); ; {
		taken, ok := l.targets[port]
		if !ok || taken == realAddr {
			l.targets[port] = realAddr
			return net.JoinHostPort(FarIP, strconv.Itoa(int(port))), nil
		}
		if port++; port == 0 {
			port = 1
		}
		if port == first {
			return "", errors.New("wan: forward: no free port")
		}
	}
}

// accept answers a SYN at the far end. It dials the real server before it answers, so that a refusal stays a refusal;
// on loopback this makes connect about 0.1 ms longer.
func (l *Link) accept(request *tcp.ForwarderRequest) {
	l.mu.Lock()
	target, known := l.targets[request.ID().LocalPort]
	if l.closed {
		l.mu.Unlock()
		request.Complete(false)
		return
	}
	l.relays.Add(1)
	l.mu.Unlock()
	defer l.relays.Done()

	if !known {
		request.Complete(true)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(l.ctx, "tcp", target)
	accepted := err == nil || errors.Is(err, syscall.ECONNRESET) // a reset this early is of a connection that was made
	if !accepted {
		request.Complete(true)
		return
	}
	var queue waiter.Queue
	endpoint, terr := request.CreateEndpoint(&queue) // returns when the client's ACK has come
	request.Complete(false)
	if err != nil {
		if terr == nil {
			endpoint.Abort()
		}
		return
	}
	if terr != nil {
		_ = server.Close()
		return
	}
	relay(&farConn{TCPConn: gonet.NewTCPConn(&queue, endpoint), endpoint: endpoint}, server.(*net.TCPConn))
}

// farConn is the far end of a connection over the link.
type farConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

// relay copies both ways until both are done. The end of one direction is passed on as such; a reset on either side
// becomes a reset on the other.
func relay(client *farConn, server *net.TCPConn) {
	var once sync.Once
	reset := func() {
		once.Do(func() {
			client.endpoint.Abort()
			_ = server.SetLinger(0)
			_ = server.Close()
		})
	}
	var both sync.WaitGroup
	both.Go(func() { pump(server, client, reset) })
	both.Go(func() { pump(client, server, reset) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

func pump(to interface {
	io.Writer
	CloseWrite() error
}, from io.Reader, reset func()) {
	if _, err := io.Copy(to, from); err != nil {
		reset()
		return
	}
	_ = to.CloseWrite()
}

package embedded

import (
	"net"
	"sync"
)

// trackingListener knows the connections it has accepted, because go-mysql-server's Close leaves them open.
//
// Hiding the *net.TCPConn has a welcome effect: go-mysql-server looks the socket up under /proc for each query on a
// plain connection, but can't on a TLS one. Now neither does, and the two differ only by TLS.
type trackingListener struct {
	net.Listener
	serving sync.WaitGroup

	// mu guards what is below.
	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

func (l *trackingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	if l.conns == nil {
		l.conns = make(map[*trackedConn]struct{})
	}
	tracked := &trackedConn{Conn: c, listener: l}
	l.conns[tracked] = struct{}{}
	l.serving.Add(1)
	return tracked, nil
}

// closeConns cuts every open connection and waits until the server has closed each of them in its turn, which is the
// last thing it does for a connection.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		_ = c.Conn.Close()
	}
	l.mu.Unlock()
	l.serving.Wait()
}

type trackedConn struct {
	net.Conn
	listener *trackingListener
	once     sync.Once
}

// Close is called by the server when it is done with the connection, and may be called again.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.listener.mu.Lock()
		delete(c.listener.conns, c)
		c.listener.mu.Unlock()
		c.listener.serving.Done()
	})
	return err
}

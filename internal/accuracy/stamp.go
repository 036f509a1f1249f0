package accuracy

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A stamped is a connection under a driver's TLS and over connprof's: it takes the times of a query on the wire. connprof has none of
// these, because after hand-over it is out of the way. Its SyscallConn, which the drivers' liveness check needs, is the inner one's.
type stamped struct {
	net.Conn
	sys         syscall.Conn
	wrote, read atomic.Int64 // entry of the first Write, return of the last Read, in ns since origin; 0 is none
}

var origin = time.Now()

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// stamping returns a dial function that hands what dial returns to made, stamped. It must be a connection with syscall.Conn.
func stamping(dial dialFunc, made func(*stamped)) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nc, err
		}
		s := &stamped{Conn: nc, sys: nc.(syscall.Conn)}
		made(s)
		return s, nil
	}
}

func (s *stamped) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.read.Store(int64(time.Since(origin)))
	}
	return n, err
}

func (s *stamped) Write(b []byte) (int, error) {
	s.wrote.CompareAndSwap(0, int64(time.Since(origin)))
	return s.Conn.Write(b)
}

// NetConn is how connprof finds its own connection under TLS.
func (s *stamped) NetConn() net.Conn { return s.Conn }

func (s *stamped) SyscallConn() (syscall.RawConn, error) { return s.sys.SyscallConn() }

// begin forgets what was stamped.
func (s *stamped) begin() {
	s.wrote.Store(0)
	s.read.Store(0)
}

// span is from the first Write since begin to the last Read.
func (s *stamped) span() span {
	at := time.Duration(origin.UnixNano())
	return span{at + time.Duration(s.wrote.Load()), at + time.Duration(s.read.Load())}
}

package handshake

import (
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/connprof/connprof/profiler"
)

// answersAll is a connection whose reads and writes all succeed at once, from any number of goroutines.
type answersAll struct{ net.Conn }

func (answersAll) Read(b []byte) (int, error)  { return min(1, len(b)), nil }
func (answersAll) Write(b []byte) (int, error) { return len(b), nil }
func (answersAll) Close() error                { return nil }

// handed is nc as a connection that was made and handed over.
func handed(nc net.Conn) (net.Conn, *profiler.Conn) {
	c := new(profiler.Profiler).NewConn(profiler.Endpoint{System: "postgresql"}, profiler.RolePool)
	c.CloseWithWire()
	w := &watch{c: c, d: new(Dialer), nc: nc, dialed: profiler.Now(), lastIO: profiler.Now()}
	c.Watch(w)
	wrapped := newConn(nc, w)
	c.Ready(profiler.NoCaller)
	return wrapped, c
}

// Reads from several goroutines answer one write once, also where an operation begins or ends meanwhile: what they add up to is nothing else.
func TestReadsThatCoincideAnswerOnce(t *testing.T) {
	nc, c := handed(answersAll{})
	x := ExchangesOf(nc)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for b := make([]byte, 1); ; {
				select {
				case <-stop:
					return
				default:
					nc.Read(b)
				}
			}
		})
	}
	for i := range 20_000 {
		x.Begin()
		nc.Write([]byte("q"))
		if i%2 == 0 {
			nc.Read(make([]byte, 1))
		}
		if s := x.state.Load(); s >= 2*oneExchange || s&(connFailed|connClosed) != 0 || s&exchangesSeen == 0 {
			t.Errorf("operation %d: state %b after one write and good reads", i, s)
			break
		}
		x.End()
	}
	close(stop)
	readers.Wait()
	if c.Profiler().Report().Endpoint("", profiler.RolePool).Closed != 0 {
		t.Error("the connection is open, and was reported closed")
	}
}

func TestWhatDoesNotPassIsNoExchange(t *testing.T) {
	nc, _ := handed(boastful{answersAll{}})
	x := ExchangesOf(nc)
	x.Begin()
	nc.Write([]byte("q"))
	nc.Read(make([]byte, 1))
	nc.Read(nil)
	if sent, received, known := x.Bytes(); sent != 1 || received != 1 || !known {
		t.Errorf("%d bytes sent, %d received, known %v: want one each, whatever the tunnel counts", sent, received, known)
	}
	nc, _ = handed(answersAll{})
	x = ExchangesOf(nc)
	x.Begin()
	nc.Write([]byte("q"))
	nc.Read(make([]byte, 1))
	nc.Write(nil)
	if turns, _ := x.Answered(); turns != 1 {
		t.Errorf("%d turns, want 1: nothing was written after it", turns)
	}
}

// A read that waited since before an operation and brought nothing, because its deadline passed, brought nothing of the operation's.
func TestAReadBegunBeforeThatBringsNothingHidesNothing(t *testing.T) {
	inner, far := net.Pipe()
	defer inner.Close()
	defer far.Close()
	waits := &waitingConn{Conn: inner, reads: make(chan struct{}, 8)}
	nc, _ := handed(waits)
	x := ExchangesOf(nc)
	over := make(chan error)
	go func() { _, err := nc.Read(make([]byte, 8)); over <- err }()
	<-waits.reads
	x.Begin()
	nc.SetReadDeadline(time.Unix(1, 0))
	if err := <-over; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	nc.SetReadDeadline(time.Time{})
	go func() {
		far.Read(make([]byte, 8))
		far.Write([]byte("R"))
	}()
	nc.Write([]byte("q"))
	nc.Read(make([]byte, 8))
	if sent, received, known := x.Bytes(); sent != 1 || received != 1 || !known {
		t.Errorf("%d bytes sent, %d received, known %v; want one each", sent, received, known)
	}
	if turns, _ := x.Answered(); turns != 1 {
		t.Errorf("%d turns, want 1", turns)
	}
	x.End()
}

// waitingConn tells that a read begins.
type waitingConn struct {
	net.Conn
	reads chan struct{}
}

func (c *waitingConn) Read(b []byte) (int, error) {
	c.reads <- struct{}{}
	return c.Conn.Read(b)
}

package handshake

import (
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/connprof/connprof/profiler"
)

func TestBytesAreThoseOfTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, far := handedOver(t)
		go func() { // says so much
			b := make([]byte, 64)
			for {
				n, err := far.Read(b)
				if err != nil {
					return
				}
				far.Write(b[:2*n])
			}
		}()
		pass := func(n int) {
			nc.Write(make([]byte, n))
			io.ReadFull(nc, make([]byte, 2*n))
		}
		x := ExchangesOf(nc)
		if _, _, known := x.Bytes(); known {
			t.Error("known before Begin")
		}
		for i := range 3 {
			x.Begin()
			pass(10 + i)
			pass(1)
			x.End()
			pass(20) // after it
			if sent, received, known := x.Bytes(); sent != int64(11+i) || received != 2*sent || !known {
				t.Errorf("%d bytes sent, %d received, known: %v", sent, received, known)
			}
		}
		x.Begin()
		if sent, received, known := x.Bytes(); sent != 0 || received != 0 || !known {
			t.Errorf("nothing passed: %d bytes sent, %d received, known: %v", sent, received, known)
		}
	})
}

func TestBytesThatADriverReadsAheadAreNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, far := handedOver(t)
		got := make(chan int)
		go func() { // a driver's reader
			b := make([]byte, 8)
			for {
				n, err := nc.Read(b)
				if err != nil {
					return
				}
				got <- n
			}
		}()
		go func() {
			b := make([]byte, 8)
			for {
				if _, err := far.Read(b); err != nil {
					return
				}
				far.Write([]byte("R"))
				far.Write([]byte("R"))
			}
		}()
		synctest.Wait()
		x := ExchangesOf(nc)
		for range 3 {
			x.Begin()
			nc.Write([]byte("question"))
			<-got
			<-got
			synctest.Wait() // it reads again
			if sent, received, known := x.Bytes(); known {
				t.Errorf("%d bytes sent, %d received", sent, received)
			}
			x.End()
		}
		nc.Close()
	})
}

func TestAMeterIsThereWhileAConnectionIsMade(t *testing.T) {
	p := new(profiler.Profiler)
	c := p.NewConn(profiler.Endpoint{}, profiler.RolePool)
	if c.Meter() != nil {
		t.Error("a meter of no wire")
	}
	d := &Dialer{DialFunc: answering(t, 0)}
	nc, err := d.DialContext(profiler.NewContext(t.Context(), c), "tcp", "db:5432")
	if err != nil {
		t.Fatal(err)
	}
	m := c.Meter()
	if m == nil {
		t.Fatal("no meter")
	}
	m.Begin()
	ask(t, nc, 1)
	if _, _, known := m.Bytes(); known {
		t.Error("bytes of the create")
	}
	m.End()
	c.Ready(profiler.NoCaller)
	if c.Meter() != nil {
		t.Error("a meter after the create")
	}
	m.Begin()
	ask(t, nc, 1)
	if sent, _, known := m.Bytes(); !known || sent == 0 {
		t.Errorf("%d bytes sent, known: %v", sent, known)
	}
	m.End()
	var none *profiler.Conn
	var nobody *Exchanges
	if _, _, known := nobody.Bytes(); known || none.Meter() != nil {
		t.Error("a nil one counts")
	}
}

// What counting costs an operation of one exchange, over a connection that costs nothing.
func BenchmarkExchanges(b *testing.B) {
	buf := make([]byte, 64)
	for name, of := range map[string]func(net.Conn) *Exchanges{
		"off":     func(net.Conn) *Exchanges { return nil },
		"counted": func(nc net.Conn) *Exchanges { x := ExchangesOf(nc); x.stamps = false; return x },
		"stamped": ExchangesOf,
	} {
		b.Run(name, func(b *testing.B) {
			nc := readyConn(b, nullConn{})
			x := of(nc)
			b.ReportAllocs()
			for b.Loop() {
				x.Begin()
				nc.Write(buf)
				nc.Read(buf)
				x.Answered()
				x.Bytes()
				x.End()
			}
		})
	}
}

// A read that began before the operation, while nobody watched, takes what belongs to it, or a part of that.
func TestBytesThatAnEarlierReadTookAreNotKnown(t *testing.T) {
	for name, more := range map[string]bool{"all of them": false, "some of them": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, far := handedOver(t)
				early := make(chan int)
				go func() {
					n, _ := nc.Read(make([]byte, 8))
					early <- n
				}()
				go func() {
					far.Read(make([]byte, 8))
					far.Write([]byte("answer"))
					if more {
						far.Write([]byte("and more"))
					}
				}()
				synctest.Wait()
				x := ExchangesOf(nc)
				x.Begin()
				nc.Write([]byte("question"))
				<-early
				if more {
					nc.Read(make([]byte, 8))
				}
				x.End()
				sent, received, known := x.Bytes()
				if turns, _ := x.Answered(); known || turns != 0 {
					t.Errorf("%d bytes sent, %d received, known: %v; %d turns", sent, received, known, turns)
				}
				go func() { far.Read(make([]byte, 8)); far.Write([]byte("answer")) }()
				x.Begin()
				nc.Write([]byte("question"))
				nc.Read(make([]byte, 8))
				x.End()
				if sent, received, known := x.Bytes(); sent != 8 || received != 6 || !known {
					t.Errorf("the next one: %d bytes sent, %d received, known: %v", sent, received, known)
				}
			})
		})
	}
}

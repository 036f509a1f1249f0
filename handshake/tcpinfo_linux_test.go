package handshake

import (
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/connprof/connprof/profiler"
)

// A full listen queue drops a SYN, and the kernel sends it again after a second (RFC 6298 §2): TCP's own count of it is what tells this
// from a server that is slow.
func TestALostSYNIsCounted(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil { // a queue of one
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(sa.(*unix.SockaddrInet4).Port))
	filler, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	room := time.AfterFunc(900*time.Millisecond, func() {
		if nfd, _, err := unix.Accept(fd); err == nil {
			unix.Close(nfd)
		}
	})
	defer room.Stop()
	c, nc, err := dial(t, new(Dialer), addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close() // the kernel's last word is the one on the connect
	c.Ready(profiler.NoCaller)
	cr := c.Create()
	if i := cr.TCP; !i.Known || i.RetransmitsConnect < 1 || i.Retransmits < i.RetransmitsConnect {
		t.Errorf("TCP %+v; want the SYN that was sent again", i)
	}
	if d := cr.Phases[profiler.Connect].Duration; d < 900*time.Millisecond {
		t.Errorf("connect took %v, want the second that TCP waits", d)
	}
}

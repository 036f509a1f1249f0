package accuracy

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// openTUN makes a TUN device in this process's network namespace. It goes with the last descriptor of it.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: tunFile, Err: err}
	}
	i, err := unix.NewIfreq(name)
	if err == nil {
		i.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, i)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("accuracy: TUN device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), tunFile), nil
}

const tunFile = "/dev/net/tun"

// held is an IP packet on its way.
type held struct {
	due int64 // ns of CLOCK_MONOTONIC
	b   []byte
}

// forward takes each packet that the kernel sends through a TUN device and hands it back after delay with its addresses swapped, so that
// this machine talks to itself over a network with a round-trip time of twice delay. Checksums, being sums, stay right. It returns when
// the device can't be read.
//
// It is meant for a process of its own: a Go program's own network waits would compete with it. Reading and writing block a thread each,
// because the runtime's timers may be a millisecond late.
func forward(tun int, delay time.Duration) error {
	way := make(chan held, 1<<14)
	defer close(way)
	go func() {
		runtime.LockOSThread()
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // ns, instead of 50 µs; without it packets are that much later
		for p := range way {
			sleepUntil(p.due)
			_, _ = unix.Write(tun, p.b) // a packet that is lost is sent again
		}
	}()
	runtime.LockOSThread()
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(tun, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		due := monotonic() + int64(delay)
		if n >= 20 && buf[0]>>4 == 4 { // IPv4; the kernel's own IPv6 chatter is dropped
			b := append([]byte(nil), buf[:n]...)
			copy(b[12:16], buf[16:20])
			copy(b[16:20], buf[12:16])
			way <- held{due, b}
		}
	}
}

func sleepUntil(t int64) {
	ts := unix.NsecToTimespec(t)
	for errors.Is(unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil), unix.EINTR) {
	}
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // can't fail for this clock
	return ts.Nano()
}

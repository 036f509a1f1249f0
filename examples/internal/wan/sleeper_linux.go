package wan

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper sleeps to within some 50 µs. time.Sleep does not: in a process that is otherwise idle the runtime waits in
// epoll, whose time-out counts whole milliseconds, so a sleep ends up to 1 ms late. A timerfd is a file that becomes
// readable at a given instant; the runtime's poller waits for it as for any socket, and wakes on time.
type sleeper struct {
	file *os.File
	raw  syscall.RawConn
}

func (s *sleeper) open() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	s.file = os.NewFile(uintptr(fd), "timerfd")
	s.raw, err = s.file.SyscallConn()
	return err
}

// sleepUntil returns at t, or at once after close.
func (s *sleeper) sleepUntil(t time.Time) {
	left := time.Until(t)
	if left <= 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	arm := func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &spec, nil) }
	if s.raw.Control(arm) != nil { // closed
		return
	}
	var expirations [8]byte
	_, _ = s.file.Read(expirations[:])
}

// close ends a sleep in progress. It may be called from another goroutine.
func (s *sleeper) close() { _ = s.file.Close() }

package handshake

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connected reads the SYN's round trip: right after connect, the kernel's smoothed value is that one sample.
func (f *tcpFacts) connected(nc net.Conn) {
	if ti := readTCPInfo(nc); ti != nil {
		f.info.Known = true
		f.info.RTT = time.Duration(ti.Rtt) * time.Microsecond
		f.info.RTTVar = time.Duration(ti.Rttvar) * time.Microsecond
		f.info.RetransmitsConnect = ti.Total_retrans
		f.info.Retransmits = ti.Total_retrans // until the connection is asked again: it may be closed by then
	}
}

func (f *tcpFacts) settled(nc net.Conn) {
	if !f.info.Known {
		return
	}
	if ti := readTCPInfo(nc); ti != nil {
		f.info.Retransmits = ti.Total_retrans
	}
}

// readTCPInfo is nil for anything but a TCP socket of the kernel's. A user's own type may implement syscall.Conn for something else.
func readTCPInfo(nc net.Conn) *unix.TCPInfo {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	return tcpInfoOf(rc)
}

func tcpInfoOf(rc syscall.RawConn) (ti *unix.TCPInfo) {
	rc.Control(func(fd uintptr) {
		if t, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			ti = t
		}
	})
	return ti
}

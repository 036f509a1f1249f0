package accuracy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// The addresses in the namespace. The servers listen on local; far is local seen through the TUN device.
const (
	local  = "127.0.0.1"
	far    = "127.0.0.2"
	device = "wan0"
)

// stageVariable tells a process of the test binary what it is for: "1" is the process that "make accuracy" starts, which does no more than
// start the one that measures, in a network namespace of its own; that one starts the process that forwards packets.
const (
	stageVariable  = "CONNPROF_ACCURACY"
	stageWanted    = "1"
	stageMeasuring = "measuring"
	stageForwarder = "forwarding"
)

// again returns this program once more, for another stage. It ends when this process does, if it calls endWithParent.
func again(stage string, args ...string) (cmd *exec.Cmd, parent io.Closer, err error) {
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), stageVariable+"="+stage)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	parent, err = cmd.StdinPipe()
	return cmd, parent, err
}

// endWithParent ends this process when its standard input does.
func endWithParent() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// inNamespace makes cmd run in a new network namespace, which goes when its last process does.
func inNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
}

// setUp prepares this process's network namespace and returns the TUN device. Of 127.0.0.0/8 only local stays with the loopback device, so
// that a packet to far leaves through the TUN device, with the source address local.
func setUp() (tun *os.File, err error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	tun, err = openTUN(device)
	if err != nil {
		return nil, err
	}
	up := func(i *unix.Ifreq) error { i.SetUint16(unix.IFF_UP); return nil }
	address := func(a [4]byte) func(*unix.Ifreq) error {
		return func(i *unix.Ifreq) error { return i.SetInet4Addr(a[:]) }
	}
	for _, step := range []struct {
		name    string
		device  string
		request uint
		set     func(*unix.Ifreq) error
	}{
		{"loopback up", "lo", unix.SIOCSIFFLAGS, up},
		{"loopback's netmask", "lo", unix.SIOCSIFNETMASK, address([4]byte{255, 255, 255, 255})},
		{"local address", device, unix.SIOCSIFADDR, address([4]byte{127, 0, 0, 1})},
		{"far address", device, unix.SIOCSIFDSTADDR, address([4]byte{127, 0, 0, 2})},
		{"up", device, unix.SIOCSIFFLAGS, up},
	} {
		i, err := unix.NewIfreq(step.device)
		if err == nil {
			err = errors.Join(step.set(i), unix.IoctlIfreq(s, step.request, i))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("accuracy: namespace: %s of %s: %w", step.name, step.device, err), tun.Close())
		}
	}
	for file, value := range map[string]string{
		// BBR, a common default, paces what it sends, which delays the later packets of a flight.
		"tcp_congestion_control":             "reno",
		"conf/" + device + "/route_localnet": "1", // 127.0.0.0/8 may pass a device other than loopback
		"conf/" + device + "/rp_filter":      "0",
		"conf/all/rp_filter":                 "0",
	} {
		if err := os.WriteFile("/proc/sys/net/ipv4/"+file, []byte(value), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("accuracy: namespace: %w", err), tun.Close())
		}
	}
	return tun, nil
}

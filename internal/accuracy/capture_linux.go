package accuracy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A capture is a running tcpdump.
type capture struct {
	cmd    *exec.Cmd
	said   chan string // its standard error after the first line, once that ended
	exited chan error
}

// settle is how long the kernel may keep the last block of packets to itself: tcpdump, stopped earlier, writes none of it.
const settle = 2500 * time.Millisecond

// startCapture captures, into a file, what passes a device between this machine and the servers' ports, as the client sees it: a packet
// that a hairpin sends back with its addresses swapped is seen in one form only. It returns when tcpdump listens.
func startCapture(file, device string, ports ...string) (*capture, error) {
	var each []string
	for _, p := range ports {
		each = append(each, fmt.Sprintf("(src host %s and dst port %s) or (dst host %s and src port %s)", local, p, local, p))
	}
	c := &capture{
		cmd: exec.Command("tcpdump", "-n", "-i", device, "-w", file, "-Z", "root", "-s", "0", "-B", "65536",
			"--time-stamp-precision=nano", "tcp and ("+strings.Join(each, " or ")+")"),
		said: make(chan string, 1), exited: make(chan error, 1),
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		// The signal at the parent's death follows the thread that started the child (go.dev/issue/27505): this one stays to the end.
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewReader(stderr)
		first, _ := lines.ReadString('\n')
		if strings.Contains(first, "listening on") {
			started <- nil
		} else {
			started <- errors.New(first)
		}
		rest, _ := io.ReadAll(lines)
		c.said <- string(rest)
		c.exited <- c.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("accuracy: tcpdump: %w", err)
	}
	if err := <-started; err != nil {
		return nil, fmt.Errorf("accuracy: tcpdump: %w", err)
	}
	return c, nil
}

var dropped = regexp.MustCompile(`(\d+) packets? dropped by kernel`)

// stop ends the capture once the last packets are in it. It is an error if the kernel dropped any.
func (c *capture) stop() error {
	time.Sleep(settle)
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	said := <-c.said
	if err := <-c.exited; err != nil {
		return fmt.Errorf("accuracy: tcpdump: %w\n%s", err, said)
	}
	if m := dropped.FindStringSubmatch(said); m == nil || m[1] != "0" {
		return fmt.Errorf("accuracy: tcpdump does not say that nothing was dropped:\n%s", said)
	}
	return nil
}

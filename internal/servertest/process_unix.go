//go:build unix

package servertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// watch is the shell between the tests and the server. A line on its standard input is the order to stop; the input's end is that of the
// test process, after which nobody else removes the folder. Descriptor 3 is then the server's alone: its reader sees the server end.
const watch = `
dir=$1 stop=$2 death=$3
shift 3
"$@" </dev/null &
exec 3>&-
if read -r _; then
	kill -"$stop" $!
	wait
else
	kill -"$death" $!
	wait
	cd /
	rm -rf "$dir"
fi
`

// Process is a server under its watching shell. It needs no goroutine.
type Process struct {
	shell  *exec.Cmd
	orders *os.File // the shell's standard input
	alive  *os.File // ends when the server does
}

// Start starts the server c. Its folder is removed if the test process dies.
func (c Command) Start() (p *Process, err error) {
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersIn.Close()
	alive, aliveIn, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer aliveIn.Close()

	args := []string{"-c", watch, "sh", c.Dir, cmp.Or(c.StopSignal, "TERM"), cmp.Or(c.DeathSignal, "KILL"), c.Path}
	cmd := exec.Command("/bin/sh", append(args, c.Args...)...)
	cmd.Stdin = ordersIn
	cmd.ExtraFiles = []*os.File{aliveIn}
	c.prepare(cmd)
	if err := cmd.Start(); err != nil {
		orders.Close()
		alive.Close()
		return nil, err
	}
	return &Process{shell: cmd, orders: orders, alive: alive}, nil
}

// Ended waits for the server's end, at most for d, and reports whether it came.
func (p *Process) Ended(d time.Duration) bool {
	p.alive.SetReadDeadline(time.Now().Add(d))
	_, err := p.alive.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// Stop ends the server, with force if it takes too long, and the shell.
func (p *Process) Stop() (err error) {
	if _, werr := p.orders.WriteString("stop\n"); werr != nil || !p.Ended(StopTimeout) {
		err = fmt.Errorf("the server did not stop within %v and was killed", StopTimeout)
		syscall.Kill(-p.shell.Process.Pid, syscall.SIGKILL)
	}
	p.shell.Wait() // its status says nothing new
	p.orders.Close()
	p.alive.Close()
	return err
}

// Run runs the tool c to its end.
func (c Command) Run() error {
	ctx, cancel := context.WithTimeout(context.Background(), ToolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdin = c.Stdin
	c.prepare(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	return nil
}

// prepare makes cmd run as c says, in a process group of its own, so that an interrupt from the terminal reaches the tests alone.
func (c Command) prepare(cmd *exec.Cmd) {
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), "HOME="+c.Dir, "TMPDIR="+c.Dir)
	cmd.Stdout, cmd.Stderr = c.Log, c.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o := c.As; o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}

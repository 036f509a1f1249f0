//go:build unix

package mariadbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// watch is the shell between the tests and the server. A line on its standard input is the order to stop; the input's end
// is that of the test process, after which nobody else removes the folder. Descriptor 3 is then the server's alone: its reader sees the server end.
const watch = `
dir=$1
shift
"$@" </dev/null &
exec 3>&-
if read -r _; then
	kill -TERM $!
	wait
else
	kill -KILL $!
	wait
	cd /
	rm -rf "$dir"
fi
`

// process is a server under its watching shell. It needs no goroutine.
type process struct {
	shell  *exec.Cmd
	orders *os.File // the shell's standard input
	alive  *os.File // ends when the server does
}

// startProcess starts the server argv in the folder dir, which the shell removes if the test process dies. The output goes
// to log.
func startProcess(dir string, log *os.File, o *owner, argv ...string) (p *process, err error) {
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

	cmd := exec.Command("/bin/sh", append([]string{"-c", watch, "sh", dir}, argv...)...)
	cmd.Stdin = ordersIn
	cmd.ExtraFiles = []*os.File{aliveIn}
	o.prepare(cmd, dir, log)
	if err := cmd.Start(); err != nil {
		orders.Close()
		alive.Close()
		return nil, err
	}
	return &process{shell: cmd, orders: orders, alive: alive}, nil
}

// ended waits for the server's end, at most for d, and reports whether it came.
func (p *process) ended(d time.Duration) bool {
	p.alive.SetReadDeadline(time.Now().Add(d))
	_, err := p.alive.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// stop ends the server, with force if it takes too long, and the shell.
func (p *process) stop() (err error) {
	if _, werr := p.orders.WriteString("stop\n"); werr != nil || !p.ended(stopTimeout) {
		err = fmt.Errorf("the server did not stop within %v and was killed", stopTimeout)
		syscall.Kill(-p.shell.Process.Pid, syscall.SIGKILL)
	}
	p.shell.Wait() // its status says nothing new
	p.orders.Close()
	p.alive.Close()
	return err
}

// runTool runs a program to its end as the server's user; its output goes to log.
func runTool(dir string, log *os.File, o *owner, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), initTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	o.prepare(cmd, dir, log)
	return cmd.Run()
}

// prepare makes cmd run as o in the folder dir, in a process group of its own, so that an interrupt from the terminal
// reaches the tests alone.
func (o *owner) prepare(cmd *exec.Cmd, dir string, log *os.File) {
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}

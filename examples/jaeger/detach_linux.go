package main

import (
	"os/exec"
	"syscall"
)

// detach keeps a terminal's Ctrl-C from c, which is stopped when all is done, and lets it not outlive the thread that starts it.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

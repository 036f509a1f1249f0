//go:build !linux

package main

import "os/exec"

// detach does nothing here: a Ctrl-C reaches both, and what is killed leaves c behind.
func detach(*exec.Cmd) {}

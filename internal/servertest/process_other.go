//go:build !unix

package servertest

import (
	"errors"
	"time"
)

var errNotUnix = errors.New("servertest: servers are run on Unix only")

// Process has no form here.
type Process struct{}

func (c Command) Start() (*Process, error) { return nil, errNotUnix }

func (c Command) Run() error { return errNotUnix }

func (p *Process) Ended(d time.Duration) bool { return true }

func (p *Process) Stop() error { return nil }

//go:build !unix

package mariadbtest

import (
	"os"
	"time"
)

// process has no form here: the server is run on Unix only.
type process struct{}

func startProcess(dir string, log *os.File, o *owner, argv ...string) (*process, error) {
	return nil, errNotInstalled
}

func (p *process) ended(d time.Duration) bool { return true }

func (p *process) stop() error { return nil }

func runTool(dir string, log *os.File, o *owner, name string, args ...string) error {
	return errNotInstalled
}

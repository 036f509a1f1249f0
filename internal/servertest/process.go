package servertest

import (
	"errors"
	"io"
	"os"
	"time"
)

const (
	// ToolTimeout bounds one run of Run.
	ToolTimeout = 2 * time.Minute
	// StopTimeout is how long a server may take to stop before it is killed.
	StopTimeout = 10 * time.Second
	// PollInterval is the pause between two looks at a server that starts.
	PollInterval = 2 * time.Millisecond
)

// A Command is a program and how it is run.
type Command struct {
	Path  string
	Args  []string
	Dir   string    // the working and home folder
	Log   *os.File  // takes both outputs
	As    *Owner    // nil is the one who runs the tests
	Stdin io.Reader // of a tool; a server has none
	// StopSignal ends a server in good order, DeathSignal ends it at once when the test process died: names as kill(1) takes them, empty for
	// TERM and KILL.
	StopSignal, DeathSignal string
}

// WaitFor returns when ready reports true. It fails if p ends before that or if it takes longer than d; p is then stopped.
func (p *Process) WaitFor(ready func(deadline time.Time) bool, d time.Duration) error {
	deadline := time.Now().Add(d)
	for !ready(deadline) {
		var err error
		if p.Ended(PollInterval) {
			err = errors.New("the server ended before it accepted a connection")
		} else if time.Now().After(deadline) {
			err = errors.New("the server accepted no connection within " + d.String())
		}
		if err != nil {
			return errors.Join(err, p.Stop())
		}
	}
	return nil
}

package mongoprof

import (
	"context"
	"os"
	"strings"
)

// failure is the error of a failed command, of which this version of the driver reports the text only.
type failure string

// Error is the driver's text.
func (f failure) Error() string { return string(f) }

// Is recognises, by the text that they end with, the errors that tell how the command ended.
func (f failure) Is(target error) bool {
	switch target {
	case context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded:
		return strings.HasSuffix(string(f), target.Error())
	}
	return false
}

// isNetwork recognises what failed on the network by how the text of topology.ConnectionError begins, behind driver.Error's empty name
// (topology/errors.go and driver/errors.go in 1.17.10): " connection(" and the connection's name.
func isNetwork(failure string) bool {
	return strings.HasPrefix(strings.TrimSpace(failure), "connection(")
}

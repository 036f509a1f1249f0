package mongoprof

import (
	"context"
	"os"
	"strings"

	"github.com/connprof/connprof/pool"
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

// retryable recognises what this version of the driver repeats, of which it reports the text only: what failed on the network, by how the
// text of topology.ConnectionError begins behind driver.Error's empty name (topology/errors.go and driver/errors.go in 1.17.10), which is
// " connection(" and the connection's name; and the codes of the specification "Retryable Reads", by the server's names for them, "(Name) ".
func retryable(ce *pool.CommandEvent, failure string) {
	name, _, named := strings.Cut(strings.TrimPrefix(failure, "("), ") ")
	ce.RetryableRead = strings.HasPrefix(strings.TrimSpace(failure), "connection(") ||
		named && failure[0] == '(' && retryableNames[name]
	ce.RetryableWrite = ce.RetryableRead
}

var retryableNames = map[string]bool{
	"InterruptedAtShutdown": true, "InterruptedDueToReplStateChange": true, "NotWritablePrimary": true, "NotMaster": true,
	"NotPrimaryNoSecondaryOk": true, "NotMasterNoSlaveOk": true, "NotPrimaryOrSecondary": true, "NotMasterOrSecondary": true,
	"PrimarySteppedDown": true, "ShutdownInProgress": true, "HostNotFound": true, "HostUnreachable": true, "NetworkTimeout": true,
	"SocketException": true, "ExceededTimeLimit": true,
}

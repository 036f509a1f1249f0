package mongov2prof

import (
	"errors"

	"github.com/connprof/connprof/pool"
)

// retryable tells what the driver makes of an error (driver.Error in x/mongo/driver/errors.go, 2.10.0): it has the driver's own method for
// reads, and labels for the rest.
func retryable(ce *pool.CommandEvent, err error) {
	var l interface{ HasErrorLabel(string) bool }
	if errors.As(err, &l) {
		network := l.HasErrorLabel("NetworkError")
		ce.RetryableRead, ce.RetryableWrite = network, network || l.HasErrorLabel("RetryableWriteError")
		ce.Overloaded = l.HasErrorLabel("SystemOverloadedError") && l.HasErrorLabel("RetryableError")
	}
	var r interface{ RetryableRead() bool }
	if errors.As(err, &r) && r.RetryableRead() {
		ce.RetryableRead = true
	}
}

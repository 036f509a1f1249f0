package mongoprof

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/connprof/connprof/pool"
)

func TestFailureTellsHowTheCommandEnded(t *testing.T) {
	for text, want := range map[string]error{
		"connection(db:27017[-5]) incomplete read of message header: context deadline exceeded":       context.DeadlineExceeded,
		"connection(db:27017[-5]) incomplete read of message header: context canceled":                context.Canceled,
		"connection(db:27017[-5]) incomplete read of message header: read tcp 1.2.3.4:5: i/o timeout": os.ErrDeadlineExceeded,
		"connection(db:27017[-5]) socket was unexpectedly closed: EOF":                                nil,
	} {
		err := error(failure(text))
		if err.Error() != text {
			t.Errorf("%q became %q", text, err)
		}
		for _, target := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, io.EOF} {
			if got := errors.Is(err, target); got != (target == want) {
				t.Errorf("%q is %v: %v", text, target, got)
			}
		}
	}
}

func TestRetryableIsWhatTheDriverRepeats(t *testing.T) {
	for text, want := range map[string]bool{
		" connection(db:27017[-5]) socket was unexpectedly closed: EOF": true,
		"(NotWritablePrimary) not primary":                              true,
		"(InterruptedAtShutdown) interrupted: (x) y":                    true,
		"(DuplicateKey) E11000":                                         false,
		"context deadline exceeded":                                     false,
		"":                                                              false,
	} {
		var e pool.CommandEvent
		if retryable(&e, text); e.RetryableRead != want || e.RetryableWrite != want {
			t.Errorf("%q: %v", text, e.RetryableRead)
		}
	}
}

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

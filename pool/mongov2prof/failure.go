package mongov2prof

import "errors"

// isNetwork recognises the driver's label of what failed on the network.
func isNetwork(err error) bool {
	var l interface{ HasErrorLabel(string) bool }
	return errors.As(err, &l) && l.HasErrorLabel("NetworkError")
}

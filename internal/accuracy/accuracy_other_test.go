//go:build !linux

package accuracy

import "testing"

func TestAccuracy(t *testing.T) {
	t.Skip("accuracy is measured on Linux only: it takes network namespaces and TUN devices")
}

package pool_test

import (
	"os"
	"testing"
)

// lowerDir is a folder of the test whose path has no capital letters, unlike t.TempDir's.
func lowerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "connprof")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

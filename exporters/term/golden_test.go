package term

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what print prints with testdata/name.
func golden(t *testing.T, name string, p Printer, print func(*Printer)) {
	t.Helper()
	var out bytes.Buffer
	p.W = &out
	print(&p)
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%s differs (run with -update to accept); got:\n%s", path, out.Bytes())
	}
}

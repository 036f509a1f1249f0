// Package suitetest runs a driver's own tests, bare and with this project underneath, and compares: a wrapper that changes nothing passes and
// fails the same tests.
package suitetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Results are PASS, FAIL or SKIP by the name of a test, subtests included.
type Results map[string]string

// A Suite is a driver's tests, compiled.
type Suite struct {
	Bin     string
	Dir     string   // where they run; empty means the folder of Bin
	Env     []string // as of exec.Cmd
	Skip    string   // a pattern of tests that are left out
	Timeout string   // of a run; empty means 5m
}

// Copy copies a driver's module to a new folder, with this project required by its go.mod, and returns the folder. change sees each file by
// its path inside the module, and returns what it becomes; nil for not at all.
func Copy(t *testing.T, module string, change func(name string, b []byte) []byte) string {
	t.Helper()
	root := Command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}")
	from := Command(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", module)
	dir := t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch name {
		case "go.mod":
			b = fmt.Appendf(b, "\nrequire github.com/connprof/connprof v0.0.0\n\nreplace github.com/connprof/connprof => %s\n", root)
		case "go.sum":
			sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
			if err != nil {
				return err
			}
			b = append(b, sums...)
		default:
			if b = change(name, b); b == nil {
				return nil
			}
		}
		Write(t, filepath.Join(dir, name), b)
		return nil
	})
	if err != nil {
		t.Fatalf("the driver's module at %s: %v", from, err)
	}
	return dir
}

// Write writes a file, and makes its folder.
func Write(t *testing.T, name string, b []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Build compiles the tests of a package of the module in dir, and returns the binary.
func Build(t *testing.T, dir, pkg, ldflags string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "suite")
	Command(t, dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off"), "go", "test", "-c", "-vet=off", "-ldflags", ldflags, "-o", bin, pkg)
	return bin
}

// Command runs a command and returns what it printed.
func Command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// numbers are those of temporary folders, in the names of subtests.
var numbers = regexp.MustCompile(`\d{7,}`)

// Run runs the tests that a pattern names, all for "".
func (s Suite) Run(t *testing.T, only string) Results {
	t.Helper()
	timeout := s.Timeout
	if timeout == "" {
		timeout = "5m"
	}
	args := []string{"-test.v", "-test.timeout=" + timeout, "-test.skip=" + s.Skip}
	if only != "" {
		args = append(args, "-test.run="+only)
	}
	cmd := exec.Command(s.Bin, args...)
	if cmd.Env, cmd.Dir = s.Env, s.Dir; cmd.Dir == "" {
		cmd.Dir = filepath.Dir(s.Bin)
	}
	out, err := cmd.CombinedOutput()
	results := make(Results)
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		line, ok := strings.CutPrefix(strings.TrimSpace(sc.Text()), "--- ")
		if f := strings.Fields(line); ok && len(f) >= 2 {
			results[numbers.ReplaceAllString(f[1], "N")] = strings.TrimSuffix(f[0], ":")
		}
	}
	if len(results) == 0 || bytes.Contains(out, []byte("\npanic: ")) {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out[max(0, len(out)-4000):])
	}
	return results
}

// Compare counts the tests that went otherwise with a suite than bare, and says which. Some of them depend on time: each is run twice more,
// alone, before it counts.
func Compare(t *testing.T, name string, bare Suite, b Results, with Suite, w Results) int {
	t.Helper()
	for range 2 {
		for _, test := range differing(b, w) {
			only := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
			maps.Copy(b, bare.Run(t, only))
			maps.Copy(w, with.Run(t, only))
		}
	}
	d := differing(b, w)
	for _, test := range d {
		fmt.Printf("differs: %s: bare %q, %s %q\n", test, b[test], name, w[test])
	}
	return len(d)
}

func differing(b, w Results) []string {
	var d []string
	for test := range b {
		if b[test] != w[test] {
			d = append(d, test)
		}
	}
	for test := range w {
		if _, ok := b[test]; !ok {
			d = append(d, test)
		}
	}
	slices.Sort(d)
	return d
}

// Show lists what did not pass, of the tests that are no subtests.
func (r Results) Show(name string) {
	fmt.Printf("%s: %s passed/failed/skipped", name, r.Counts())
	for _, test := range slices.Sorted(maps.Keys(r)) {
		if r[test] != "PASS" && !strings.Contains(test, "/") {
			fmt.Printf("; %s %s", r[test], test)
		}
	}
	fmt.Println()
}

// Counts are passed/failed/skipped, without subtests.
func (r Results) Counts() string {
	n := make(map[string]int)
	for test, result := range r {
		if !strings.Contains(test, "/") {
			n[result]++
		}
	}
	return fmt.Sprintf("%d/%d/%d", n["PASS"], n["FAIL"], n["SKIP"])
}

package fidelitytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The parts that a connection, a statement and rows may have: the optional interfaces that database/sql asks for. It asks for the first
// apart of a connection's in calls that ask for nothing else.
const apart = 3

var (
	connParts = []string{
		"connPing", "connPrepare", "connBegin", "connExec", "connQuery", "connExecOld", "connQryOld", "connReset", "connValid", "connCheck",
	}
	stmtParts = []string{"stmtExec", "stmtQuery", "stmtCheck", "stmtConvert"}
	rowsParts = []string{"rowsSets", "rowsScanType", "rowsTypeName", "rowsLength", "rowsNullable", "rowsPrecision"}
)

// A method set can't be made at run time, and thousands of types are not for reading: the list of all combinations is written here,
// compiled in the place of few_test.go, and run. All of a connection's take a minute of compiling; without CONNPROF_FIDELITY=long each
// combination of those parts that meet in a call has one of the combinations of the others.
func TestEveryCombinationBehavesTheSame(t *testing.T) {
	connections := make([]int, 0, 1<<len(connParts))
	for set := range cap(connections) {
		meet := set >> apart
		if long() || set%(1<<apart) == (meet+meet>>apart)%(1<<apart) {
			connections = append(connections, set)
		}
	}
	var b strings.Builder
	b.WriteString("package fidelitytest\n\nimport \"database/sql/driver\"\n")
	list(&b, "conns", "conn", "driver.Conn", connParts, connections)
	list(&b, "stmts", "stmt", "driver.Stmt", stmtParts, all(len(stmtParts)))
	list(&b, "answers", "rows", "driver.Rows", rowsParts, all(len(rowsParts)))

	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "all_test.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "few_test.go"): list}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{list: b.String(), filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-v", "-run", "^TestTheHostSeesNoDifference$",
		"-overlay", filepath.Join(dir, "overlay.json"), ".").CombinedOutput()
	want := fmt.Sprintf("%d kinds of connections, %d of statements, %d of rows", len(connections), 1<<len(stmtParts), 1<<len(rowsParts))
	if err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("%v; want %s\n%s", err, want, out[:min(len(out), 8000)])
	}
}

// long reports whether all combinations are asked for.
func long() bool { return os.Getenv("CONNPROF_FIDELITY") == "long" }

func all(parts int) []int {
	sets := make([]int, 1<<parts)
	for i := range sets {
		sets[i] = i
	}
	return sets
}

// list writes a function for each of the sets of parts that makes a value with them.
func list(b *strings.Builder, name, base, iface string, parts []string, sets []int) {
	fmt.Fprintf(b, "\nvar %s = []func(*%s) %s{\n", name, base, iface)
	for _, set := range sets {
		fields, values := "*"+base, "v"
		for i, p := range parts {
			if set&(1<<i) != 0 {
				fields += "; " + p
				values += ", " + p + "{v}"
			}
		}
		fmt.Fprintf(b, "\tfunc(v *%s) %s { return struct{ %s }{%s} },\n", base, iface, fields, values)
	}
	b.WriteString("}\n")
}

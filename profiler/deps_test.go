package profiler

import (
	"encoding/json"
	"errors"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The import policy of this module, after the manner of go/build/deps_test.go. What a package may import is its house's list and nothing
// else; a package that no line describes is an error. A line is not loosened to make the test pass.

const module = "github.com/connprof/connprof"

// A rule says what the packages under one path may import beside the standard library. An entry ending in "/..." covers what is below it,
// too; paths without a dot in their first element are this module's.
type rule struct {
	of    string
	allow []string
	why   string
}

// importPolicy: the first rule that covers a package holds.
var importPolicy = []rule{
	{"profiler", nil, "profiler imports the standard library only"},
	{"handshake/...", []string{"profiler", "internal/...", "golang.org/x/sys/..."},
		"handshake imports profiler, internal and x/sys only"},
	{"pool/mysqlprof", prof("github.com/go-sql-driver/mysql/..."), "mysqlprof joins handshake, pool, profiler and one driver"},
	{"pool/mongoprof", prof("go.mongodb.org/mongo-driver/...", "!go.mongodb.org/mongo-driver/v2/..."),
		"mongoprof joins handshake, pool, profiler and one driver, version 1"},
	{"pool/mongov2prof", prof("go.mongodb.org/mongo-driver/v2/..."), "mongov2prof joins handshake, pool, profiler and one driver, version 2"},
	{"pool/pgxprof", prof("github.com/jackc/pgx/v5/..."), "pgxprof joins handshake, pool, profiler and one driver"},
	{"pool", []string{"profiler", "internal/..."}, "pool imports profiler and internal only"},
	{"exporters/oteltrace", []string{"profiler", "internal/...", "go.opentelemetry.io/otel/...",
		"!go.opentelemetry.io/otel/sdk/...", "!go.opentelemetry.io/otel/exporters/..."},
		"oteltrace imports profiler, internal and the OTel API, never the SDK"},
	{"exporters/otelmetric", []string{"profiler", "internal/...", "go.opentelemetry.io/otel/...", "go.opentelemetry.io/otel/sdk/metric/metricdata",
		"!go.opentelemetry.io/otel/sdk/...", "!go.opentelemetry.io/otel/exporters/..."},
		"otelmetric imports profiler, internal, the OTel API and of the SDK metricdata alone"},
	{"exporters/...", []string{"profiler", "internal/...", "golang.org/x/..."},
		"exporters import profiler and internal, never each other, handshake or pool"},
	{"internal/...", []string{"profiler", "internal/...", "golang.org/x/...", "github.com/...", "go.mongodb.org/..."},
		"internal imports no package that users import, profiler excepted"},
	{"cmd/...", []string{"profiler", "handshake", "pool/...", "exporters/...", "internal/...", "cmd/...", "github.com/...", "golang.org/x/...",
		"go.mongodb.org/...", "go.opentelemetry.io/..."},
		"cmd may import all of this module, examples excepted"},
}

func prof(driver ...string) []string {
	return append([]string{"handshake", "pool", "profiler", "internal/..."}, driver...)
}

// testOnly are for tests, and so are this module's internal packages whose name ends in "test": nothing that users build may import them.
var testOnly = []string{"github.com/stretchr/testify/...", "go.uber.org/goleak/...", "github.com/lib/pq/..."}

// neverInTests is out of bounds for tests as well; what else they import is free.
var neverInTests = []string{"cmd/...", "examples/..."}

// badNames say nothing of what a package does.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}

func TestImports(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.Contains(badNames, p.Name) || slices.Contains(badNames, path.Base(name)) {
			t.Errorf("package %s: its name says nothing (no package is named %s)", p.ImportPath, strings.Join(badNames, ", "))
		}
		plain, test := imports(t, p.Dir)
		for _, imp := range plain {
			if why := forbidden(name, imp); why != "" {
				t.Errorf("package %s imports %q: %s", p.ImportPath, imp, why)
			}
		}
		for _, imp := range test {
			if covered(neverInTests, imp) {
				t.Errorf("a test of package %s imports %q: nothing imports cmd or examples", p.ImportPath, imp)
			}
		}
	}
}

// The policy itself: what it must let through and what it must not.
func TestImportsPolicyRefuses(t *testing.T) {
	for _, tt := range []struct {
		pkg, imp string
		ok       bool
	}{
		{"profiler", "sync/atomic", true},
		{"profiler", "golang.org/x/sys/unix", false},
		{"profiler", module + "/internal/goid", false},
		{"handshake", "golang.org/x/sys/unix", true},
		{"handshake", module + "/profiler", true},
		{"handshake", module + "/pool", false},
		{"pool", module + "/internal/goid", true},
		{"pool", module + "/handshake", false},
		{"pool", "github.com/go-sql-driver/mysql", false},
		{"pool/mysqlprof", "github.com/go-sql-driver/mysql", true},
		{"pool/mysqlprof", module + "/pool", true},
		{"pool/mysqlprof", module + "/pool/mongoprof", false},
		{"pool/mongoprof", "go.mongodb.org/mongo-driver/mongo/options", true},
		{"pool/mongoprof", "go.mongodb.org/mongo-driver/v2/mongo", false},
		{"pool/mongov2prof", "go.mongodb.org/mongo-driver/v2/mongo", true},
		{"pool/mongov2prof", "go.mongodb.org/mongo-driver/mongo", false},
		{"exporters/term", module + "/exporters/html", false},
		{"exporters/term", module + "/pool", false},
		{"exporters/term", module + "/profiler", true},
		{"exporters/oteltrace", "go.opentelemetry.io/otel/trace", true},
		{"exporters/oteltrace", "go.opentelemetry.io/otel/sdk/trace", false},
		{"exporters/oteltrace", "go.opentelemetry.io/otel/exporters/otlp/otlptrace", false},
		{"exporters/otelmetric", "go.opentelemetry.io/otel/sdk/metric/metricdata", true},
		{"exporters/otelmetric", "go.opentelemetry.io/otel/sdk/metric", false},
		{"internal/goid", module + "/exporters/term", false},
		{"internal/goid", module + "/profiler", true},
		{"pool", "github.com/stretchr/testify/require", false},
		{"cmd/connprof", module + "/exporters/term", true},
		{"cmd/connprof", module + "/examples/quickstart", false},
		{"cmd/connprof", "github.com/stretchr/testify/require", false},
		{"internal/faketest", "go.uber.org/goleak", true},
		{"internal/goid", module + "/internal/faketest", false},
		{"handshake", module + "/internal/faketest", false},
		{"newhouse", "sync", false},
	} {
		if why := forbidden(tt.pkg, tt.imp); (why == "") != tt.ok {
			t.Errorf("%s imports %s: allowed = %t, want %t (%s)", tt.pkg, tt.imp, why == "", tt.ok, why)
		}
	}
}

// forbidden says why pkg, a path within this module, may not import imp; "" if it may.
func forbidden(pkg, imp string) string {
	if (covered(testOnly, imp) || forTests(strings.TrimPrefix(imp, module+"/"))) && !forTests(pkg) {
		return strings.Join(testOnly, ", ") + " and internal/…test are for tests only"
	}
	for _, r := range importPolicy {
		if !covers(r.of, pkg) {
			continue
		}
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") || covered(r.allow, imp) || covered(testOnly, imp) && forTests(pkg) {
			return ""
		}
		return r.why
	}
	return "no rule says what this package is for: importPolicy needs a line"
}

// forTests reports whether a package of this module serves tests.
func forTests(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/") && strings.HasSuffix(pkg, "test")
}

// covered reports whether a pattern covers the import: an exact one first, then an exclusion (!), then the wider ones.
func covered(patterns []string, imp string) bool {
	imp = strings.TrimPrefix(imp, module+"/")
	if slices.Contains(patterns, imp) {
		return true
	}
	ok := false
	for _, p := range patterns {
		if not, yes := strings.CutPrefix(p, "!"); yes && covers(not, imp) {
			return false
		} else if covers(p, imp) {
			ok = true
		}
	}
	return ok
}

func covers(pattern, name string) bool {
	dir, below := strings.CutSuffix(pattern, "/...")
	return name == dir || below && strings.HasPrefix(name, dir+"/")
}

type listedPackage struct{ ImportPath, Name, Dir string }

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var ps []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	if len(ps) == 0 {
		t.Fatal("go list found no packages")
	}
	return ps
}

// imports reads what the files in dir import, for all systems and build tags, those of tests apart. Files that belong to no build
// (go:build ignore) are left out.
func imports(t *testing.T, dir string) (plain, test []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ignored := false
		for _, g := range f.Comments {
			for _, c := range g.List {
				if x, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
					ignored = ignored || x.String() == "ignore"
				}
			}
		}
		if ignored {
			continue
		}
		to := &plain
		if strings.HasSuffix(name, "_test.go") {
			to = &test
		}
		for _, imp := range f.Imports {
			if p, err := strconv.Unquote(imp.Path.Value); err == nil && !slices.Contains(*to, p) {
				*to = append(*to, p)
			}
		}
	}
	return plain, test
}

package postgrestest

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/connprof/connprof/internal/servertest"
)

var errNotInstalled = errors.New("postgrestest: PostgreSQL is not installed: no postgres with initdb in PATH or the usual places; " +
	"install the package postgresql (on Debian: scripts/install-test-servers.sh)")

// usualPlaces are where packages put servers that are not in an ordinary user's PATH: on Debian one folder a version, which * stands for.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin",
}

// binaries are the programs of one PostgreSQL.
type binaries struct{ server, initdb string }

// find looks for PostgreSQL in PATH and then for its newest version. Both programs have to be of one version.
func find() (binaries, error) {
	for _, dir := range append([]string{""}, versions()...) {
		b := binaries{
			server: servertest.Look(nil, filepath.Join(dir, "postgres")),
			initdb: servertest.Look(nil, filepath.Join(dir, "initdb")),
		}
		if b.server != "" && b.initdb != "" {
			return b, nil
		}
	}
	return binaries{}, errNotInstalled
}

// versions are the folders of usualPlaces that exist, the newest version first.
func versions() (dirs []string) {
	for _, pattern := range usualPlaces {
		found, _ := filepath.Glob(pattern) // fails for a bad pattern only
		slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

// version is the number in a folder's name, 0 if there is none.
func version(dir string) int {
	digits := slices.DeleteFunc([]byte(filepath.Base(filepath.Dir(dir))), func(c byte) bool { return c < '0' || c > '9' })
	n, _ := strconv.Atoi(string(digits))
	return n
}

package mariadbtest

import (
	"errors"

	"github.com/connprof/connprof/internal/servertest"
)

var errNotInstalled = errors.New("mariadbtest: MariaDB is not installed: no mariadbd with mariadb-install-db in PATH or the " +
	"usual places; install the package mariadb-server (on Debian: scripts/install-test-servers.sh)")

// usualPlaces are where packages put servers that are not in an ordinary user's PATH.
var usualPlaces = []string{
	"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/libexec",
	"/usr/local/mysql/bin", "/usr/local/mariadb/bin", "/opt/homebrew/bin",
}

// binaries are the programs of one MariaDB.
type binaries struct{ server, install string }

// find looks for MariaDB by its programs' present and former names. Oracle's MySQL has a mysqld too, but hasn't had an
// installer since 8.0.
func find() (binaries, error) {
	b := binaries{
		server:  servertest.Look(usualPlaces, "mariadbd", "mysqld"),
		install: servertest.Look(usualPlaces, "mariadb-install-db", "mysql_install_db"),
	}
	if b.server == "" || b.install == "" {
		return binaries{}, errNotInstalled
	}
	return b, nil
}

package mariadbtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
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
	b := binaries{server: look("mariadbd", "mysqld"), install: look("mariadb-install-db", "mysql_install_db")}
	if b.server == "" || b.install == "" {
		return binaries{}, errNotInstalled
	}
	return b, nil
}

// look returns the path of the first of names that is to be had, or "".
func look(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range usualPlaces {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// owner is the user that the server runs as and that owns its folder; nil is the one who runs the tests.
type owner struct{ uid, gid uint32 }

// unprivileged returns whom to run the server as: mariadbd refuses to run as root.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("mysql")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &owner{uint32(uid), uint32(gid)}, nil
}

// chown gives the folder dir and all that is in it to o.
func (o *owner) chown(dir string) error {
	if o == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(o.uid), int(o.gid))
	})
}

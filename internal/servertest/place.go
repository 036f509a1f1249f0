package servertest

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// Look returns the path of the first of names that is in PATH or in one of dirs, "" if none is.
func Look(dirs []string, names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
	}
	return ""
}

// Owner is the user that a server runs as and that owns its folder; nil is the one who runs the tests.
type Owner struct{ uid, gid uint32 }

// Unprivileged returns whom to run a server as that refuses to run as root: nil where the tests don't run as root, else the first of names
// that is a user, or nobody.
func Unprivileged(names ...string) (*Owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var u *user.User
	var err error
	for _, name := range append(names, "nobody") {
		if u, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &Owner{uint32(uid), uint32(gid)}, nil
}

// Chown gives the folder dir and all that is in it to o.
func (o *Owner) Chown(dir string) error {
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

// MakeDir makes a server's folder, where a socket's path fits into a sockaddr_un (104 bytes on BSD).
func MakeDir(prefix string) (string, error) {
	parent := os.TempDir()
	if len(parent) > 60 {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, prefix)
}

// FreePort returns a loopback port that is free now. Somebody else may take it before the server does.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// LogTail returns the last lines of a server's log, headed, for an error message; "" if there are none.
func LogTail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-25):]
	return "\nend of the server's log:\n\t" + strings.Join(lines, "\n\t")
}

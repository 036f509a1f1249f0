package mariadbtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/connprof/connprof/internal/certtest"
)

const (
	initTimeout  = 2 * time.Minute // of making the data folder: under a second on an idle machine
	startTimeout = time.Minute     // from exec to the greeting: a fifth of a second
	stopTimeout  = 10 * time.Second
	pollInterval = 2 * time.Millisecond
)

// firstStatements are run by the server before it accepts connections, each on a line of its own.
const firstStatements = `CREATE DATABASE IF NOT EXISTS ` + Database + `;
CREATE USER IF NOT EXISTS '` + User + `'@'%' IDENTIFIED BY '` + Password + `';
GRANT ALL ON ` + Database + `.* TO '` + User + `'@'%';
`

// Server is a running MariaDB. Its fields are for reading only; its methods are safe for concurrent use.
type Server struct {
	Addr   string       // 127.0.0.1:port
	Socket string       // path of the unix socket
	CA     *certtest.CA // issued the server's certificate; the server accepts clients' certificates from it, too

	dir     string // holds all the server has, the socket and the log included
	log     *os.File
	process *process
}

// start makes a folder for a new server, starts it and returns when it answers. On failure nothing is left.
func start() (s *Server, err error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	o, err := unprivileged()
	if err != nil {
		return nil, fmt.Errorf("mariadbtest: no user to run the server as: %w", err)
	}
	dir, err := makeDir()
	if err != nil {
		return nil, fmt.Errorf("mariadbtest: %w", err)
	}
	s = &Server{Socket: filepath.Join(dir, "socket"), dir: dir}
	defer func() {
		if err != nil {
			err = fmt.Errorf("mariadbtest: starting %s: %w%s", bin.server, err, s.logTail())
			s.remove()
			s = nil
		}
	}()

	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return s, err
	}
	if err = o.chown(dir); err != nil {
		return s, err
	}
	certs := make(chan error, 1) // RSA keys take a while, as does the data folder
	go func() { certs <- s.writeFiles() }()
	err = s.initData(bin, o)
	if err := errors.Join(err, <-certs, o.chown(dir)); err != nil {
		return s, err
	}
	for range 3 { // a port that was free a moment ago may have been taken since
		if err = s.run(bin, o); err == nil || !strings.Contains(s.logTail(), "Address already in use") {
			break
		}
	}
	return s, err
}

// makeDir makes the server's folder, where a socket's path fits into a sockaddr_un (104 bytes on BSD).
func makeDir() (string, error) {
	parent := os.TempDir()
	if len(parent) > 60 {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "connprof-mariadb-")
}

// writeFiles makes the certificates, RSA as a MariaDB usually has them, and the file of first statements.
func (s *Server) writeFiles() error {
	s.CA = certtest.NewCA(certtest.RSA)
	leaf := s.CA.Issue(certtest.Leaf{Key: certtest.RSA})
	_, _, err := leaf.WriteFiles(s.dir, "server")
	return errors.Join(err, s.CA.WriteFile(filepath.Join(s.dir, "ca.pem")),
		os.WriteFile(filepath.Join(s.dir, "first.sql"), []byte(firstStatements), 0o600))
}

// engine are the options that make and run a small data folder that need not survive a crash.
var engine = []string{
	"--skip-log-bin",
	"--innodb-log-file-size=4M",
	"--innodb-buffer-pool-size=16M",
	"--innodb-flush-log-at-trx-commit=2",
	"--loose-debug-no-sync",
}

// initData makes the data folder, with a root without password.
func (s *Server) initData(bin binaries, o *owner) error {
	args := []string{
		"--no-defaults", // stays first
		"--datadir=" + s.path("data"),
		"--auth-root-authentication-method=normal",
		"--skip-test-db",
		"--skip-name-resolve",
	}
	if err := runTool(s.dir, s.log, o, bin.install, append(args, engine...)...); err != nil {
		return fmt.Errorf("%s: %w", bin.install, err)
	}
	return nil
}

// run starts the server on a free port and returns when it greets a client.
func (s *Server) run(bin binaries, o *owner) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := []string{
		bin.server,
		"--no-defaults", // stays first
		"--datadir=" + s.path("data"),
		"--tmpdir=" + s.dir,
		"--socket=" + s.Socket,
		"--pid-file=" + s.path("pid"),
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(port),
		"--init-file=" + s.path("first.sql"),
		"--ssl-ca=" + s.path("ca.pem"),
		"--ssl-cert=" + s.path("server.pem"),
		"--ssl-key=" + s.path("server-key.pem"),
		"--tls-version=TLSv1.2,TLSv1.3",
		"--skip-name-resolve",
		"--max-connections=500",
		"--max-connect-errors=1000000000", // tests break off connections
		"--innodb-fast-shutdown=2",
		"--innodb-buffer-pool-dump-at-shutdown=OFF",
	}
	p, err := startProcess(s.dir, s.log, o, append(args, engine...)...)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); !s.greets(deadline); {
		if p.ended(pollInterval) {
			err = errors.New("the server ended before it accepted a connection")
		} else if time.Now().After(deadline) {
			err = fmt.Errorf("the server accepted no connection within %v", startTimeout)
		}
		if err != nil {
			return errors.Join(err, p.stop())
		}
	}
	s.process = p
	return nil
}

// greets reports whether the server sends its greeting, which it does once the first statements are done.
func (s *Server) greets(deadline time.Time) bool {
	c, err := net.Dial("unix", s.Socket)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetReadDeadline(deadline)
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}

// stop ends the server and removes its folder. It is an error if the server had ended by itself.
func (s *Server) stop() error {
	var err error
	if s.process.ended(time.Millisecond) {
		err = fmt.Errorf("mariadbtest: the server ended by itself%s", s.logTail())
	}
	if perr := s.process.stop(); perr != nil {
		err = fmt.Errorf("mariadbtest: %w%s", perr, s.logTail())
	}
	return errors.Join(err, s.remove())
}

// remove removes what the server had.
func (s *Server) remove() error {
	if s.log != nil {
		s.log.Close()
	}
	return os.RemoveAll(s.dir)
}

// logTail returns the last lines of the server's log, headed, for an error message.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.path("log"))
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-25):]
	return "\nend of the server's log:\n\t" + strings.Join(lines, "\n\t")
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

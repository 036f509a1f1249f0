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
	"github.com/connprof/connprof/internal/servertest"
)

// startTimeout is from exec to the greeting: a fifth of a second on an idle machine.
const startTimeout = time.Minute

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
	process *servertest.Process
}

// start makes a folder for a new server, starts it and returns when it answers. On failure nothing is left.
func start() (s *Server, err error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	o, err := servertest.Unprivileged("mysql")
	if err != nil {
		return nil, fmt.Errorf("mariadbtest: no user to run the server as: %w", err)
	}
	dir, err := servertest.MakeDir("connprof-mariadb-")
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
	if err = o.Chown(dir); err != nil {
		return s, err
	}
	certs := make(chan error, 1) // RSA keys take a while, as does the data folder
	go func() { certs <- s.writeFiles() }()
	err = s.initData(bin, o)
	if err := errors.Join(err, <-certs, o.Chown(dir)); err != nil {
		return s, err
	}
	for range 3 { // a port that was free a moment ago may have been taken since
		if err = s.run(bin, o); err == nil || !strings.Contains(s.logTail(), "Address already in use") {
			break
		}
	}
	return s, err
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
func (s *Server) initData(bin binaries, o *servertest.Owner) error {
	args := []string{
		"--no-defaults", // stays first
		"--datadir=" + s.path("data"),
		"--auth-root-authentication-method=normal",
		"--skip-test-db",
		"--skip-name-resolve",
	}
	return servertest.Command{Path: bin.install, Args: append(args, engine...), Dir: s.dir, Log: s.log, As: o}.Run()
}

// run starts the server on a free port and returns when it greets a client.
func (s *Server) run(bin binaries, o *servertest.Owner) error {
	port, err := servertest.FreePort()
	if err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := []string{
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
	p, err := servertest.Command{Path: bin.server, Args: append(args, engine...), Dir: s.dir, Log: s.log, As: o}.Start()
	if err != nil {
		return err
	}
	if err := p.WaitFor(s.greets, startTimeout); err != nil {
		return err
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
	if s.process.Ended(time.Millisecond) {
		err = fmt.Errorf("mariadbtest: the server ended by itself%s", s.logTail())
	}
	if perr := s.process.Stop(); perr != nil {
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
func (s *Server) logTail() string { return servertest.LogTail(s.path("log")) }

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

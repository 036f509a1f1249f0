package postgrestest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/connprof/connprof/internal/certtest"
	"github.com/connprof/connprof/internal/servertest"
)

// startTimeout is from exec to the first login: a tenth of a second on an idle machine.
const startTimeout = time.Minute

const superuser = "postgres"

// firstStatements are run in single-user mode, each on a line of its own.
const firstStatements = `CREATE ROLE ` + User + ` LOGIN PASSWORD '` + Password + `';
CREATE DATABASE ` + Database + ` OWNER ` + User + `;
`

// access is pg_hba.conf: who may log in from where, and how.
const access = `local all ` + superuser + ` trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
`

// settings make a small server that need not survive a crash; ssl_ciphers and the like stay PostgreSQL's own. What is set here a test may
// change with ALTER SYSTEM and pg_reload_conf.
const settings = `
ssl = on
ssl_cert_file = '../server.pem'
ssl_key_file = '../server-key.pem'
password_encryption = 'scram-sha-256'
max_connections = 200
shared_buffers = 16MB
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
`

// Server is a running PostgreSQL. Its fields are for reading only; its methods are safe for concurrent use.
type Server struct {
	Addr      string       // 127.0.0.1:port
	SocketDir string       // the folder of the unix socket, which clients take for a host
	Socket    string       // path of the unix socket
	CA        *certtest.CA // issued the server's certificate
	CAFile    string       // the CA's certificate

	port    int
	dir     string // holds all the server has, the socket and the log included
	log     *os.File
	process *servertest.Process
}

// start makes a folder for a new server, starts it and returns when it lets in a client. On failure nothing is left.
func start() (s *Server, err error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	o, err := servertest.Unprivileged(superuser)
	if err != nil {
		return nil, fmt.Errorf("postgrestest: no user to run the server as: %w", err)
	}
	dir, err := servertest.MakeDir("connprof-postgres-")
	if err != nil {
		return nil, fmt.Errorf("postgrestest: %w", err)
	}
	s = &Server{SocketDir: dir, CAFile: filepath.Join(dir, "ca.pem"), dir: dir}
	defer func() {
		if err != nil {
			err = fmt.Errorf("postgrestest: starting %s: %w%s", bin.server, err, servertest.LogTail(s.path("log")))
			s.remove()
			s = nil
		}
	}()

	if s.log, err = os.Create(s.path("log")); err != nil {
		return s, err
	}
	if err = o.Chown(dir); err != nil {
		return s, err
	}
	certs := make(chan error, 1) // RSA keys take a while, as does the data folder
	go func() { certs <- s.writeCertificates() }()
	err = s.initData(bin, o)
	if err := errors.Join(err, <-certs, o.Chown(dir)); err != nil {
		return s, err
	}
	for range 3 { // a port that was free a moment ago may have been taken since
		if err = s.run(bin, o); err == nil || !strings.Contains(servertest.LogTail(s.path("log")), "Address already in use") {
			break
		}
	}
	return s, err
}

// writeCertificates makes the certificates, RSA as a PostgreSQL usually has them.
func (s *Server) writeCertificates() error {
	s.CA = certtest.NewCA(certtest.RSA)
	leaf := s.CA.Issue(certtest.Leaf{Key: certtest.RSA})
	_, _, err := leaf.WriteFiles(s.dir, "server")
	return errors.Join(err, s.CA.WriteFile(s.CAFile))
}

// initData makes the data folder with the settings, the user and the database.
func (s *Server) initData(bin binaries, o *servertest.Owner) error {
	data := s.path("data")
	err := servertest.Command{
		Path: bin.initdb, Dir: s.dir, Log: s.log, As: o,
		Args: []string{"--pgdata=" + data, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"},
	}.Run()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString(settings)
	if err := errors.Join(err, conf.Close(), o.Chown(data)); err != nil {
		return err
	}
	return servertest.Command{
		Path: bin.server, Dir: s.dir, Log: s.log, As: o, Stdin: strings.NewReader(firstStatements),
		Args: []string{"--single", "-D", data, "-c", "ssl=off", superuser}, // the certificates may not be there yet
	}.Run()
}

// run starts the server on a free port and returns when it lets in the superuser.
func (s *Server) run(bin binaries, o *servertest.Owner) (err error) {
	if s.port, err = servertest.FreePort(); err != nil {
		return err
	}
	s.Addr = net.JoinHostPort("127.0.0.1", s.Port())
	s.Socket = filepath.Join(s.dir, ".s.PGSQL."+s.Port())
	p, err := servertest.Command{
		Path: bin.server, Dir: s.dir, Log: s.log, As: o,
		// PostgreSQL waits for its clients on TERM; on KILL it would leave its children and its shared memory (postgres(1)).
		StopSignal: "INT", DeathSignal: "QUIT",
		Args: []string{
			"-D", s.path("data"),
			"-c", "listen_addresses=127.0.0.1",
			"-c", "port=" + s.Port(),
			"-c", "unix_socket_directories=" + s.dir,
		},
	}.Start()
	if err != nil {
		return err
	}
	if err := p.WaitFor(s.accepts, startTimeout); err != nil {
		return err
	}
	s.process = p
	return nil
}

// accepts reports whether the server lets the superuser in: its answer to a start-up message (protocol §55.7, StartupMessage) is then an
// authentication request; one that is starting up or shutting down answers with an error.
func (s *Server) accepts(deadline time.Time) bool {
	c, err := net.Dial("unix", s.Socket)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(deadline)
	const parameters = "user\x00" + superuser + "\x00\x00"
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(parameters)))
	b = binary.BigEndian.AppendUint32(b, 3<<16) // protocol 3.0
	if _, err := c.Write(append(b, parameters...)); err != nil {
		return false
	}
	answer := make([]byte, 1)
	n, _ := c.Read(answer)
	return n == 1 && answer[0] == 'R'
}

// stop ends the server and removes its folder. It is an error if the server had ended by itself.
func (s *Server) stop() error {
	var err error
	if s.process.Ended(time.Millisecond) {
		err = fmt.Errorf("postgrestest: the server ended by itself%s", servertest.LogTail(s.path("log")))
	}
	if perr := s.process.Stop(); perr != nil {
		err = fmt.Errorf("postgrestest: %w%s", perr, servertest.LogTail(s.path("log")))
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

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

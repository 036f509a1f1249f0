package mariadbtest

import (
	"crypto/tls"

	"github.com/go-sql-driver/mysql"
)

// The ordinary user, who may connect with TLS or without, and the empty database that is the user's own.
// The user root has no password and comes in over the socket only.
const (
	User     = "app"
	Password = "app-password"
	Database = "app"
)

// TLS says how a client of the server uses TLS.
type TLS int

const (
	Plain      TLS = iota // no TLS
	Verified              // the server's certificate is checked against the CA and the name localhost
	SkipVerify            // any certificate will do
	TLS12                 // as Verified, with TLS 1.2
)

// Config returns a driver configuration of the caller's own, for User over TCP.
func (s *Server) Config(t TLS) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = User, Password, Database
	cfg.Net, cfg.Addr = "tcp", s.Addr
	cfg.TLS = s.ClientTLS(t)
	return cfg
}

// RootConfig returns a driver configuration of the caller's own, for root over the unix socket, without a database.
func (s *Server) RootConfig() *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "unix", s.Socket
	return cfg
}

// ClientTLS returns the TLS configuration of a client, nil for Plain.
func (s *Server) ClientTLS(t TLS) *tls.Config {
	switch t {
	case Verified:
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "localhost"}
	case SkipVerify:
		return &tls.Config{InsecureSkipVerify: true}
	case TLS12:
		return &tls.Config{RootCAs: s.CA.Pool(), ServerName: "localhost", MaxVersion: tls.VersionTLS12}
	}
	return nil
}

// DSN returns the data source name of a user over TCP, with Database. params are the driver's ("tls=skip-verify",
// "timeout=1s&parseTime=true"), or empty. A verified TLS needs a name registered with the driver: mysql.RegisterTLSConfig
// with what ClientTLS returns.
func (s *Server) DSN(user, password, params string) string {
	dsn := user + ":" + password + "@tcp(" + s.Addr + ")/" + Database
	if params != "" {
		dsn += "?" + params
	}
	return dsn
}

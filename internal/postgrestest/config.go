package postgrestest

import (
	"crypto/tls"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// The ordinary user, who logs in with SCRAM-SHA-256, with TLS or without, and the empty database that is the user's own. The superuser
// postgres comes in over the socket only, without a password.
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
func (s *Server) Config(t TLS) *pgx.ConnConfig {
	cfg := parse(s.DSN(User, Password, "sslmode=disable"))
	cfg.TLSConfig = s.ClientTLS(t)
	return cfg
}

// SocketConfig returns a driver configuration of the caller's own, for User over the unix socket.
func (s *Server) SocketConfig() *pgx.ConnConfig {
	cfg := s.Config(Plain)
	cfg.Host = s.SocketDir
	return cfg
}

// RootConfig returns a driver configuration of the caller's own, for the superuser over the unix socket, in the database postgres.
func (s *Server) RootConfig() *pgx.ConnConfig {
	cfg := s.SocketConfig()
	cfg.User, cfg.Password, cfg.Database = superuser, "", superuser
	return cfg
}

// parse is of a DSN of this package's making.
func parse(dsn string) *pgx.ConnConfig {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		panic("postgrestest: " + err.Error())
	}
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

// DSN returns the URL of a user over TCP, with Database, for pgx and lib/pq. params are libpq's ("sslmode=disable",
// "sslmode=verify-full&sslrootcert=…" with CAFile), or empty.
func (s *Server) DSN(user, password, params string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: s.Addr, Path: Database, RawQuery: params}
	return u.String()
}

// Port is that of Addr.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

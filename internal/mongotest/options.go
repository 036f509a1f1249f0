package mongotest

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"
)

// Options is what a Server is like. The zero Options is a standalone server on a free port of 127.0.0.1 without TLS, without users
// and without streaming hello, as the oldest servers and FerretDB are.
type Options struct {
	// Address is where to listen: "" is 127.0.0.1:0, "[::1]:0" is IPv6, and a path that begins with "/" is a unix socket. The
	// drivers take a host for a unix socket only if it ends in ".sock", and driver 1.17 dials the path in lower case.
	Address string

	// TLS, if not nil, makes the server speak TLS from the first byte. It needs a certificate. It is not copied: all connections
	// share its session tickets, so that a client with a ClientSessionCache resumes.
	TLS *tls.Config

	// Users maps names to passwords. If it is not empty, commands other than hello, ping and sasl* fail with code 13 until the
	// connection has logged in with SCRAM-SHA-256.
	Users map[string]string

	// Iterations is the PBKDF2 iteration count of SCRAM; 0 is 4096, the least that the drivers accept. MongoDB's own is 15000.
	Iterations int

	// NoSpeculation makes the server ignore speculativeAuthenticate in hello, so that a login takes one turn more.
	NoSpeculation bool

	// Streaming puts topologyVersion into hello replies and answers awaitable hellos as MongoDB 4.4 and later do, so that drivers
	// stream their heartbeat and start an RTT monitor, which dials a third connection.
	Streaming bool

	// ReplicaSet, if not nil, makes the server a member of a replica set. SetReplicaSet changes it later.
	ReplicaSet *ReplicaSet

	// LoadBalanced makes the server a mongos behind a load balancer: a hello with loadBalanced: true is answered with a serviceId.
	LoadBalanced bool

	// Script is asked before each reply; nil answers everything at once. SetScript changes it later.
	Script Script
}

// ReplicaSet is what hello says of a replica set. It must not be changed once a server has it.
type ReplicaSet struct {
	Name      string
	Hosts     []string // all members as host:port; empty is this server alone
	Primary   string   // the primary as host:port; empty is this server, or unknown if it is a secondary
	Secondary bool     // this server is a secondary and refuses writes
}

// Addr is the address that the server listens on: host:port, or the path of a unix socket.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URI is a connection string without a user for this server, with tls=true if it speaks TLS. A test gives its roots with the
// driver's SetTLSConfig, after ApplyURI. Params, if not empty, is appended as it is: "maxPoolSize=1&appName=x".
func (s *Server) URI(params string) string { return s.uri("", params) }

// UserURI is URI with a user and a password, right or wrong.
func (s *Server) UserURI(user, password, params string) string {
	return s.uri(url.UserPassword(user, password).String()+"@", params)
}

func (s *Server) uri(userinfo, params string) string {
	host := s.Addr()
	if _, ok := s.listener.Addr().(*net.UnixAddr); ok {
		host = url.PathEscape(host)
	}
	var query []string
	if s.opts.TLS != nil {
		query = append(query, "tls=true")
	}
	if params != "" {
		query = append(query, params)
	}
	return "mongodb://" + userinfo + host + "/?" + strings.Join(query, "&")
}

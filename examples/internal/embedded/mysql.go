package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/go-mysql-server/sql/types"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/go-sql-driver/mysql"
	"github.com/sirupsen/logrus"
)

// The accounts of the MySQL server. Both have every right and the same password; they differ in how they log in.
const (
	NativeUser  = "native" // mysql_native_password, the default of the greeting: no extra round trip
	SHA2User    = "sha2"   // caching_sha2_password, by an auth switch; this server accepts it over TLS only
	SQLPassword = "correct horse"
)

// MySQL is a running MySQL server.
type MySQL struct {
	// Addr is where it listens, 127.0.0.1 and a port. TLS is offered on the same port: MySQL's clients ask for it
	// after the greeting, so a client without TLS just does not.
	Addr string
	// RootCAs is what a client has to trust.
	RootCAs *x509.CertPool
	// RootPEM is the same for a client in another process.
	RootPEM []byte

	server   *server.Server
	engine   *sqle.Engine
	listener *trackingListener
	accept   chan struct{} // closed when the accept loop has ended
	close    func() error
}

// StartMySQL starts a MySQL server on a free loopback port and returns when it accepts connections. It holds the table
// Database.Table: _id VARCHAR(64) PRIMARY KEY, field0 … field9 TEXT, with Rows rows, and is read-only. The caller must
// Close it; ctx bounds only the start.
func StartMySQL(ctx context.Context) (*MySQL, error) {
	silenceLogrus()
	certs, err := makeCertificates()
	if err != nil {
		return nil, fmt.Errorf("embedded: mysql: certificates: %w", err)
	}
	engine, sessions, err := newEngine(ctx)
	if err != nil {
		return nil, fmt.Errorf("embedded: mysql: %w", err)
	}
	tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: mysql: %w", err), closeEngine(engine))
	}
	m := &MySQL{
		Addr: tcp.Addr().String(), RootCAs: certs.pool, RootPEM: certs.caPEM,
		engine: engine, listener: &trackingListener{Listener: tcp}, accept: make(chan struct{}),
	}
	config := server.Config{
		Listener:  m.listener,
		Address:   m.Addr,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certs.server}, MinVersion: tls.VersionTLS12},
	}
	m.server, err = server.NewServer(config, engine, sql.NewContext, sessions, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: mysql: %w", err), tcp.Close(), closeEngine(engine))
	}
	m.close = sync.OnceValue(m.stop)
	go func() {
		defer close(m.accept)
		m.server.Listener.Accept()
	}()
	return m, nil
}

// Config returns a new driver configuration for NativeUser and the database, to be changed at will and given to
// mysql.NewConnector. With tls the server's certificate is verified against RootCAs, for the host in Addr: 127.0.0.1,
// or 10.77.0.2 when Addr is changed to lead through an emulated network.
func (m *MySQL) Config(tls bool) *mysql.Config {
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", m.Addr
	config.User, config.Passwd, config.DBName = NativeUser, SQLPassword, Database
	if tls {
		config.TLS = m.TLSConfig()
	}
	return config
}

// TLSConfig returns a new client configuration that trusts the server. ServerName is left to the driver.
func (m *MySQL) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: m.RootCAs, MinVersion: tls.VersionTLS12}
}

// Close stops the server, closes the connections that are still open, and waits until its goroutines have ended.
// Later calls return what the first did.
func (m *MySQL) Close() error { return m.close() }

func (m *MySQL) stop() error {
	err := m.server.Close()
	<-m.accept
	m.listener.closeConns()
	return errors.Join(err, closeEngine(m.engine))
}

// closeEngine ends the engine's background threads. That it has cancelled them is no error.
func closeEngine(engine *sqle.Engine) error {
	if err := engine.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// newEngine makes the database, its table and its accounts.
func newEngine(ctx context.Context) (*sqle.Engine, server.SessionBuilder, error) {
	database := memory.NewDatabase(Database)
	database.AddTable(Table, newTable())
	provider := memory.NewDBProvider(database)
	engine := sqle.NewDefault(provider)

	session := memory.NewSession(sql.NewBaseSession(), provider)
	sqlCtx := sql.NewContext(ctx, sql.WithSession(session))
	sqlCtx.SetCurrentDatabase(Database)
	accounts := engine.Analyzer.Catalog.MySQLDb
	accounts.SetPersister(&mysql_db.NoopPersister{}) // without one CREATE USER panics
	accounts.AddRootAccount()                        // who may create the others; open to "localhost" only, so removed again
	session.SetClient(sql.Client{User: "root", Address: "localhost"})
	for _, statement := range []string{
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED WITH %s BY '%s'", NativeUser, vitess.MysqlNativePassword, SQLPassword),
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED WITH %s BY '%s'", SHA2User, vitess.CachingSha2Password, SQLPassword),
		fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%'", NativeUser),
		fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%'", SHA2User),
		"DROP USER 'root'@'localhost'",
	} {
		_, rows, _, err := engine.Query(sqlCtx, statement)
		if err == nil {
			_, err = sql.RowIterToRows(sqlCtx, rows)
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("accounts: %w", err), closeEngine(engine))
		}
	}
	return engine, memory.NewSessionBuilder(provider), nil
}

func newTable() *keyedTable {
	keyType := types.MustCreateStringWithDefaults(sqltypes.VarChar, 64)
	schema := sql.Schema{{Name: "_id", Type: keyType, Source: Table, DatabaseSource: Database, PrimaryKey: true}}
	for f := range fields {
		schema = append(schema, &sql.Column{Name: fieldName(f), Type: types.Text, Source: Table, DatabaseSource: Database})
	}
	rows := make([]sql.Row, Rows)
	for i := range rows {
		key, values := row(i)
		rows[i] = sql.NewRow(key)
		for _, value := range values {
			rows[i] = append(rows[i], value)
		}
	}
	return newKeyedTable(sql.NewPrimaryKeySchema(schema), rows)
}

// silenceLogrus turns off the standard logger, the only one go-mysql-server has. Once, because it is not safe beside a
// running server.
var silenceLogrus = sync.OnceFunc(func() {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.PanicLevel)
})

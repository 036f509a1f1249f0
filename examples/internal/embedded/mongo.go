package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Mongo is a running server of the MongoDB wire protocol. It asks for no login.
type Mongo struct {
	// Addr and TLSAddr are where it listens without and with TLS, 127.0.0.1 and a port each.
	Addr, TLSAddr string
	// RootCAs is what a client has to trust; CAFile is the same as a PEM file, for URIs, and exists until Close.
	RootCAs *x509.CertPool
	CAFile  string

	dir    string
	cancel context.CancelFunc
	done   chan struct{} // closed when FerretDB's Run has returned
	close  func() error
}

// StartMongo starts a MongoDB server on two free loopback ports and returns when it accepts connections. It holds the
// collection Database.Table with Rows documents: _id and field0 … field9, all strings. The caller must Close it; ctx
// bounds only the start.
func StartMongo(ctx context.Context) (*Mongo, error) {
	certs, err := makeCertificates()
	if err != nil {
		return nil, fmt.Errorf("embedded: mongo: certificates: %w", err)
	}
	dir, err := os.MkdirTemp("", "connprof-mongo-")
	if err != nil {
		return nil, fmt.Errorf("embedded: mongo: %w", err)
	}
	m := &Mongo{RootCAs: certs.pool, CAFile: certs.caFile(dir), dir: dir, done: make(chan struct{})}
	m.close = sync.OnceValue(m.stop)
	if err := certs.writeTo(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: mongo: %w", err), os.RemoveAll(dir))
	}
	db, err := m.listen(certs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: mongo: %w", err), os.RemoveAll(dir))
	}
	var running context.Context
	running, m.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		_ = db.Run(running) // always nil
	}()
	if err := m.fill(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: mongo: fill collection: %w", err), m.Close())
	}
	return m, nil
}

// listen makes a FerretDB that listens on free ports. It can't be asked for two ports of its choosing, since it tells only
// one of them; so ports are found first, and found again if another process was quicker to use one.
func (m *Mongo) listen(certs *certificates) (*ferretdb.FerretDB, error) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		var err error
		if m.Addr, m.TLSAddr, err = freeAddresses(); err != nil {
			return nil, err
		}
		db, err := ferretdb.New(&ferretdb.Config{
			Listener: ferretdb.ListenerConfig{
				TCP: m.Addr, TLS: m.TLSAddr,
				TLSCertFile: certs.certFile(m.dir), TLSKeyFile: certs.keyFile(m.dir),
				// No TLSCAFile: it would make client certificates mandatory.
			},
			Logger:    slog.New(slog.DiscardHandler),
			Handler:   "sqlite",
			SQLiteURL: "file:" + filepath.ToSlash(m.dir) + "/?mode=memory",
		})
		if err == nil || attempt == attempts || !errors.Is(err, syscall.EADDRINUSE) {
			return db, err
		}
	}
}

func freeAddresses() (first, second string, err error) {
	a, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer a.Close()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer b.Close()
	return a.Addr().String(), b.Addr().String(), nil
}

func (m *Mongo) fill(ctx context.Context) error {
	client, err := mongo.Connect(options.Client().ApplyURI(m.URI(false)))
	if err != nil {
		return err
	}
	documents := make([]any, Rows)
	for i := range documents {
		key, values := row(i)
		document := bson.D{{Key: "_id", Value: key}}
		for f, value := range values {
			document = append(document, bson.E{Key: fieldName(f), Value: value})
		}
		documents[i] = document
	}
	_, err = client.Database(Database).Collection(Table).InsertMany(ctx, documents)
	return errors.Join(err, client.Disconnect(context.WithoutCancel(ctx)))
}

// URI returns the address of the server for either driver. With tls it names CAFile, so it works until Close.
func (m *Mongo) URI(tls bool) string {
	if tls {
		return m.URIAt(m.TLSAddr, true)
	}
	return m.URIAt(m.Addr, false)
}

// URIAt is URI with another address in it, one that leads to Addr or (with tls) TLSAddr through an emulated network.
func (m *Mongo) URIAt(addr string, tls bool) string {
	uri := url.URL{Scheme: "mongodb", Host: addr, Path: "/"}
	if tls {
		uri.RawQuery = url.Values{"tls": {"true"}, "tlsCAFile": {m.CAFile}}.Encode()
	}
	return uri.String()
}

// TLSConfig returns a new client configuration that trusts the server. ServerName is left to the driver.
func (m *Mongo) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: m.RootCAs, MinVersion: tls.VersionTLS12}
}

// Close stops the server, waits until its goroutines have ended, and removes its files. Disconnect clients first: FerretDB
// gives the connections that are still open 3 s before it cuts them. Later calls return what the first did.
func (m *Mongo) Close() error { return m.close() }

func (m *Mongo) stop() error {
	m.cancel()
	<-m.done
	return os.RemoveAll(m.dir)
}

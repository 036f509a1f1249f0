package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"runtime"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/exporters/oteltrace"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/pool/mongov2prof"
	"github.com/connprof/connprof/pool/mysqlprof"
	"github.com/connprof/connprof/profiler"
)

// What is put in the way, so that the spans can be held against it.
const (
	lookupDelay   = 3 * time.Millisecond  // a name server's answer
	networkDelay  = 4 * time.Millisecond  // a server's answer, the connect excepted
	revocation    = 30 * time.Millisecond // the look at a revocation list that a new certificate costs
	exportingWork = 50 * time.Millisecond // how long an export keeps its connection while somebody waits for it
	idleTime      = 25 * time.Millisecond // what passes between two requests
	busyServer    = 40 * time.Millisecond // how long a server is too busy to greet a new client's first connection
)

// waitThreshold is what a wait must exceed to have a span of its own. The Sink's default is 1 ms, which a busy machine alone can make.
const waitThreshold = 10 * time.Millisecond

// tcpInfo says that the kernel tells of its connections.
const tcpInfo = runtime.GOOS == "linux"

// The names of the databases, one a client so that they can be told apart in the traces. The relay behind each has its own port.
const (
	ordersHost   = "orders.shop.test"
	ledgerHost   = "ledger.shop.test"
	archiveHost  = "archive.shop.test"
	reportsHost  = "reports.shop.test"
	profilesHost = "profiles.shop.test"
	reviewsHost  = "reviews.shop.test"
	adviceHost   = "advice.shop.test"
)

// setup is the service with all that it runs on.
type setup struct {
	tracing  *tracing
	profiler *profiler.Profiler
	sink     *oteltrace.Sink
	shop     *shop
	server   *server

	address map[string]string // host:port by host
	relays  map[string]*relay // by host
	stops   []func()
}

// stop ends everything, the last started first.
func (s *setup) stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}

func (s *setup) later(stop func()) { s.stops = append(s.stops, stop) }

// prepare starts the databases, the network before them, and the service.
func prepare(ctx context.Context, otlp string) (s *setup, err error) {
	s = &setup{address: make(map[string]string), relays: make(map[string]*relay)}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.tracing, err = newTracing(ctx, otlp); err != nil {
		return s, err
	}
	s.later(s.tracing.close)
	s.sink = oteltrace.New(s.tracing.provider)
	s.sink.QueryText = true
	s.sink.WaitThreshold = waitThreshold
	s.profiler = &profiler.Profiler{Sinks: []profiler.Sink{s.sink}}
	s.later(func() {
		s.profiler.Flush()
		s.sink.Flush()
	})

	sqlServer, err := embedded.StartMySQL(ctx)
	if err != nil {
		return s, err
	}
	s.later(func() { sqlServer.Close() })
	documents, err := embedded.StartMongo(ctx)
	if err != nil {
		return s, err
	}
	s.later(func() { documents.Close() })
	names, err := newNameServer(lookupDelay)
	if err != nil {
		return s, err
	}
	s.later(names.close)
	for host, server := range map[string]string{
		ordersHost: sqlServer.Addr, ledgerHost: sqlServer.Addr, archiveHost: sqlServer.Addr, reportsHost: sqlServer.Addr,
		profilesHost: documents.TLSAddr, reviewsHost: documents.TLSAddr, adviceHost: documents.TLSAddr,
	} {
		r, err := newRelay(server, networkDelay)
		if err != nil {
			return s, err
		}
		s.later(r.close)
		s.relays[host] = r
		s.address[host] = fmt.Sprintf("%s:%d", host, r.port())
	}

	s.shop = new(shop)
	for host, db := range map[string]**pool.DB{
		ordersHost: &s.shop.orders, ledgerHost: &s.shop.ledger, archiveHost: &s.shop.archive, reportsHost: &s.shop.reports,
	} {
		if *db, err = s.openMySQL(host, sqlServer, names); err != nil {
			return s, err
		}
	}
	for host, collection := range map[string]**mongo.Collection{profilesHost: &s.shop.profiles, reviewsHost: &s.shop.reviews} {
		if *collection, err = s.openMongo(host, documents, names); err != nil {
			return s, err
		}
	}
	s.shop.starting = func() (*mongo.Collection, error) { return s.openMongo(adviceHost, documents, names) }
	s.server, err = serve(s.shop.handler(s.tracing.provider.Tracer(serviceName)))
	if err != nil {
		return s, err
	}
	s.later(s.server.close)
	return s, nil
}

// openMySQL opens the pool of one host.
func (s *setup) openMySQL(host string, m *embedded.MySQL, names *nameServer) (*pool.DB, error) {
	cfg := m.Config(true)
	cfg.Addr = s.address[host]
	cfg.TLS.ServerName = "localhost" // what the certificate is for
	cfg.DialFunc = names.DialContext
	cfg.InterpolateParams = true                            // a query is one round trip
	cfg.Params = map[string]string{"time_zone": "'+00:00'"} // the driver sends this before it hands a connection over: the phase setup
	cfg.Logger = &mysql.NopLogger{}
	idle := 1
	switch host {
	case ledgerHost:
		// Sessions are kept, connections are not. The look at the revocation list is for certificates that were not seen before.
		cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		cfg.TLS.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error {
			time.Sleep(revocation)
			return nil
		}
		idle = -1
	case reportsHost:
		cfg.Passwd = "the old password"
	}
	db, err := mysqlprof.OpenConfig(s.profiler, cfg) // in place of mysql.NewConnector and sql.OpenDB
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // so that who waits for whom is known
	db.SetMaxIdleConns(idle)
	s.later(func() { db.Close() })
	return pool.Wrap(db), nil
}

// openMongo makes the client of one host.
func (s *setup) openMongo(host string, m *embedded.Mongo, names *nameServer) (*mongo.Collection, error) {
	opts := options.Client().ApplyURI(m.URIAt(s.address[host], false)).SetTLSConfig(m.TLSConfig()).SetDialer(names)
	opts.TLSConfig.ServerName = "localhost"
	if host == reviewsHost {
		opts.SetMinPoolSize(1)
	}
	client, err := mongo.Connect(mongov2prof.Instrument(s.profiler, opts)) // in place of mongo.Connect(opts)
	if err != nil {
		return nil, err
	}
	s.later(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client.Database(embedded.Database).Collection(embedded.Table), nil
}

// created is how many connections the pool of a host has made so far, as connprof counts them.
func (s *setup) created(host string) int64 {
	if e := s.profiler.Report().Endpoint(s.address[host], profiler.RolePool); e != nil {
		return e.Created
	}
	return 0
}

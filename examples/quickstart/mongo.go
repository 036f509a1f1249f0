package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/pool/mongov2prof"
	"github.com/connprof/connprof/profiler"
)

const mongoModule = "go.mongodb.org/mongo-driver/v2"

// embeddedMongo asks for a document by its _id.
func embeddedMongo(s *embedded.Mongo, tls bool, timeout time.Duration, dial dialFunc) *variant {
	uri := s.URI(tls)
	return &variant{
		system: "mongodb", tls: tls, driver: driverVersion(mongoModule), server: "embedded FerretDB",
		asks: "FindOne by _id",
		open: func(p *profiler.Profiler) (client, error) {
			return openMongo(p, uri, timeout, dial, embedded.Database, embedded.Table, true)
		},
	}
}

// userMongo looks for a document that need not exist, with what the URI says of TLS, login and read preference.
func userMongo(uri string, timeout time.Duration, dial dialFunc) (*variant, error) {
	if !strings.HasPrefix(uri, "mongodb://") && !strings.HasPrefix(uri, "mongodb+srv://") {
		return nil, addressError{system: "mongodb", flag: "-mongo", err: "a URI begins with mongodb:// or mongodb+srv://"}
	}
	opts := options.Client().ApplyURI(uri)
	if err := opts.Validate(); err != nil {
		return nil, unusable(err, uri)
	}
	database, collection := namespace(uri)
	return &variant{
		system: "mongodb", tls: opts.TLSConfig != nil, driver: driverVersion(mongoModule), server: oneLine(strings.Join(opts.Hosts, ",")),
		asks: "FindOne by _id in " + database + "." + collection,
		open: func(p *profiler.Profiler) (client, error) {
			return openMongo(p, uri, timeout, dial, database, collection, false)
		},
	}, nil
}

// unusable says why no client can be made from the URI.
func unusable(err error, uri string) addressError {
	var dns *net.DNSError
	return addressError{system: "mongodb", flag: "-mongo", err: withoutPassword(err.Error(), uri), lookup: errors.As(err, &dns)}
}

// namespace is the URI's database and, after a dot, its collection.
func namespace(uri string) (database, collection string) {
	_, rest, _ := strings.Cut(uri, "://")
	_, path, _ := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "?")
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	database, collection, _ = strings.Cut(path, ".")
	if database == "" {
		database = "connprof_quickstart"
	}
	if collection == "" {
		collection = "none"
	}
	return database, collection
}

// openMongo is all that it takes to profile a MongoDB client: mongov2prof.Instrument around the options.
func openMongo(p *profiler.Profiler, uri string, timeout time.Duration, dial dialFunc, database, collection string, must bool) (client, error) {
	opts := options.Client().ApplyURI(uri)
	if dial != nil {
		opts.SetDialer(contextDialer(dial))
	}
	if opts.ConnectTimeout == nil {
		opts.SetConnectTimeout(driverTimeout(timeout))
	}
	c, err := mongo.Connect(mongov2prof.Instrument(p, opts))
	if err != nil {
		return nil, err
	}
	return &mongoClient{client: c, collection: c.Database(database).Collection(collection), must: must}, nil
}

type mongoClient struct {
	client     *mongo.Client
	collection *mongo.Collection
	must       bool // the document must be there
}

var _ client = (*mongoClient)(nil)

func (c *mongoClient) query(ctx context.Context, i int) error {
	_, err := c.collection.FindOne(ctx, bson.D{{Key: "_id", Value: key(i)}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) && !c.must {
		return nil
	}
	return err
}

func (c *mongoClient) close(ctx context.Context) { _ = c.client.Disconnect(ctx) }

type contextDialer dialFunc

var _ options.ContextDialer = contextDialer(nil)

func (d contextDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d(ctx, network, address)
}

package embedded_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"testing"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/examples/internal/wan"
	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Through an emulated network, what the servers and drivers do must take whole round trips: one more would be a fault of
// theirs, of the network, or an acknowledgement that came late (40 ms is usual). A round trip is long beside the work of a slow
// machine, which for two TLS handshakes is 20 ms.

const roundTrip = 40 * time.Millisecond

// through makes a link to the server at addr, to be closed after everything that uses it.
func through(t *testing.T, addr string) (link *wan.Link, virtualAddr string) {
	t.Helper()
	link, err := wan.New(roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	if virtualAddr, err = link.Forward(addr); err != nil {
		t.Fatal(err)
	}
	return link, virtualAddr
}

// checkRoundTrips measures do several times. The fastest must be n round trips and less than one more: the rest is work,
// which with TLS on is milliseconds for both ends in one process.
func checkRoundTrips(t *testing.T, what string, n int, do func() error) {
	t.Helper()
	var least time.Duration
	for i := range 7 {
		start := time.Now()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if d := time.Since(start); i == 0 || d < least {
			least = d
		}
	}
	want := time.Duration(n) * roundTrip
	t.Logf("%s: %v, %v more than %d × %v", what, least, least-want, n, roundTrip)
	if least < want || least >= want+roundTrip {
		t.Errorf("%s took %v, want %d round trips of %v", what, least, n, roundTrip)
	}
}

func TestTLSHandshakeTakesOneRoundTrip(t *testing.T) {
	server := startMongo(t)
	link, addr := through(t, server.TLSAddr)
	config := server.TLSConfig()
	config.ServerName = wan.FarIP
	var c net.Conn
	checkRoundTrips(t, "connect and TLS 1.3", 2, func() (err error) {
		if c, err = link.DialContext(t.Context(), "tcp", addr); err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		return tls.Client(c, config).HandshakeContext(t.Context())
	})
}

func TestMySQLTakesWholeRoundTrips(t *testing.T) {
	server := startMySQL(t)
	link, addr := through(t, server.Addr)
	for _, test := range []struct {
		name  string
		tls   bool
		login int // connect, greeting, TLS, login
	}{{"TLS off", false, 3}, {"TLS on", true, 4}} {
		t.Run(test.name, func(t *testing.T) {
			config := server.Config(test.tls)
			config.Addr = addr
			config.DialFunc = link.DialContext
			connector, err := mysql.NewConnector(config)
			if err != nil {
				t.Fatal(err)
			}
			checkRoundTrips(t, "login", test.login, func() error {
				c, err := connector.Connect(t.Context())
				if err != nil {
					return err
				}
				return c.Close()
			})
			db := sql.OpenDB(connector)
			defer func() { _ = db.Close() }()
			db.SetMaxOpenConns(1)
			var field string
			checkRoundTrips(t, "query", 1, func() error {
				query := "SELECT field0 FROM usertable WHERE _id = '" + embedded.Key(7) + "'"
				return db.QueryRowContext(t.Context(), query).Scan(&field)
			})
			checkRoundTrips(t, "query with an argument", 2, func() error {
				return db.QueryRowContext(t.Context(), "SELECT field0 FROM usertable WHERE _id = ?", embedded.Key(7)).Scan(&field)
			})
		})
	}
}

// linkDialer is the Link as the MongoDB driver wants it.
type linkDialer struct{ *wan.Link }

func (d linkDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.Link.DialContext(ctx, network, address)
}

func TestMongoTakesWholeRoundTrips(t *testing.T) {
	server := startMongo(t)
	for _, test := range []struct {
		name  string
		addr  string
		tls   bool
		first int // twice connect, TLS and hello: once in server selection, once for the pool; then the query
	}{{"TLS off", server.Addr, false, 5}, {"TLS on", server.TLSAddr, true, 7}} {
		t.Run(test.name, func(t *testing.T) {
			link, addr := through(t, test.addr)
			client := func() *mongo.Client {
				config := options.Client().ApplyURI(server.URIAt(addr, test.tls)).SetDialer(linkDialer{link})
				c, err := mongo.Connect(config)
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			find := func(c *mongo.Client) error {
				filter := bson.D{{Key: "_id", Value: embedded.Key(7)}}
				return c.Database(embedded.Database).Collection(embedded.Table).FindOne(t.Context(), filter).Err()
			}
			var cold []*mongo.Client
			checkRoundTrips(t, "a cold client's first query", test.first, func() error {
				c := client()
				cold = append(cold, c)
				return find(c)
			})
			checkRoundTrips(t, "a reused query", 1, func() error { return find(cold[0]) })
			for _, c := range cold {
				_ = c.Disconnect(t.Context())
			}
		})
	}
}

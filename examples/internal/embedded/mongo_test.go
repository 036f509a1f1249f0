package embedded_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
	bsonv1 "go.mongodb.org/mongo-driver/bson"
	mongov1 "go.mongodb.org/mongo-driver/mongo"
	optionsv1 "go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func startMongo(t *testing.T) *embedded.Mongo {
	t.Helper()
	start := time.Now()
	server, err := embedded.StartMongo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %v", time.Since(start))
	t.Cleanup(func() {
		start := time.Now()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("stopped in %v", time.Since(start))
		if _, err := os.Stat(server.CAFile); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s after Close: %v", server.CAFile, err)
		}
	})
	return server
}

func TestMongoAnswersBothDriversWithTLSOffAndOn(t *testing.T) {
	server := startMongo(t)
	for name, tls := range map[string]bool{"TLS off": false, "TLS on": true} {
		t.Run(name+", driver v2", func(t *testing.T) {
			client, err := mongo.Connect(options.Client().ApplyURI(server.URI(tls)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Disconnect(t.Context()) }()
			collection := client.Database(embedded.Database).Collection(embedded.Table)
			var document bson.M
			err = collection.FindOne(t.Context(), bson.D{{Key: "_id", Value: embedded.Key(7)}}).Decode(&document)
			if field, _ := document["field9"].(string); err != nil || len(document) != 11 || len(field) != 100 {
				t.Errorf("document 7: %v, %v", document, err)
			}
			if n, err := collection.CountDocuments(t.Context(), bson.D{}); err != nil || n != embedded.Rows {
				t.Errorf("%d documents, %v", n, err)
			}
		})
		t.Run(name+", driver v1", func(t *testing.T) {
			client, err := mongov1.Connect(t.Context(), optionsv1.Client().ApplyURI(server.URI(tls)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Disconnect(t.Context()) }()
			collection := client.Database(embedded.Database).Collection(embedded.Table)
			var document bsonv1.M
			err = collection.FindOne(t.Context(), bsonv1.D{{Key: "_id", Value: embedded.Key(7)}}).Decode(&document)
			if field, _ := document["field9"].(string); err != nil || len(document) != 11 || len(field) != 100 {
				t.Errorf("document 7: %v, %v", document, err)
			}
		})
	}
}

func TestMongoTLSConfigIsEnoughWithoutTheCAFile(t *testing.T) {
	server := startMongo(t)
	uri := "mongodb://" + server.TLSAddr + "/"
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetTLSConfig(server.TLSConfig()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	if err := client.Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestTwoMongosDoNotShareData(t *testing.T) {
	a, b := startMongo(t), startMongo(t)
	count := func(uri string) int64 {
		client, err := mongo.Connect(options.Client().ApplyURI(uri))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Disconnect(t.Context()) }()
		collection := client.Database(embedded.Database).Collection(embedded.Table)
		if uri == a.URI(false) {
			if _, err := collection.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "one more"}}); err != nil {
				t.Fatal(err)
			}
		}
		n, err := collection.CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if na, nb := count(a.URI(false)), count(b.URI(false)); na != embedded.Rows+1 || nb != embedded.Rows {
		t.Errorf("%d and %d documents", na, nb)
	}
}

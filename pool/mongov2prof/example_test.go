package mongov2prof_test

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/connprof/connprof/pool/mongov2prof"
	"github.com/connprof/connprof/profiler"
)

// One call around the options. Here nothing listens, and the report says in which phase the driver's heartbeat failed.
func ExampleInstrument() {
	var p profiler.Profiler
	o := options.Client().ApplyURI("mongodb://127.0.0.1:1").SetServerSelectionTimeout(100 * time.Millisecond)
	client, err := mongo.Connect(mongov2prof.Instrument(&p, o))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer client.Disconnect(ctx)

	err = client.Database("shop").Collection("orders").FindOne(ctx, bson.D{}).Err()
	f := p.Report().Failures[0]
	fmt.Println(err != nil, f.Role, f.Phase, "failed:", f.Advice)
	// Output: true monitor connect failed: nothing listens there: check host, port, and that the server runs
}

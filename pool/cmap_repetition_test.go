package pool_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
	bson2 "go.mongodb.org/mongo-driver/v2/bson"
)

// Which attempts are one operation: what the driver is bound to repeat is counted, what it perhaps repeated has an unknown number of attempts.
func TestMongoAttempts(t *testing.T) {
	type call func(ctx context.Context, c client) error
	insert := func(ctx context.Context, c client) error { return c.insert(ctx, 1) }
	find := func(ctx context.Context, c client) error { return c.find(ctx, 1) }
	updateMany := func(ctx context.Context, c client) error { return c.updateMany(ctx) }
	runFind := func(ctx context.Context, c client) error { // the program itself tries again
		if err := c.runFind(ctx); err == nil {
			return errors.New("the first one was cut")
		}
		return c.runFind(ctx)
	}
	cut := mongotest.Step{Close: true}
	down := mongotest.Step{Error: &mongotest.Error{Code: 11602, Name: "InterruptedDueToReplStateChange", Message: "down", Labels: []string{"RetryableWriteError"}}}
	concern := mongotest.Step{Reply: bson2.D{
		{Key: "n", Value: 1}, {Key: "ok", Value: 1.0}, {Key: "errorLabels", Value: []string{"RetryableWriteError"}},
		{Key: "writeConcernError", Value: bson2.D{{Key: "code", Value: 91}, {Key: "errmsg", Value: "shutting down"}}},
	}}
	cases := map[string]struct {
		call       call
		command    string
		step       mongotest.Step
		statements bool
		params     string
		commands   int   // that the server saw
		attempts   []int // of each operation
		fails      bool  // the caller's call
	}{
		"a find that was cut":                   {find, "find", cut, false, "", 2, []int{2}, false},
		"a find on a server that steps down":    {find, "find", down, false, "", 2, []int{2}, false},
		"a find, told not to":                   {find, "find", cut, false, "&retryReads=false", 1, []int{1}, true},
		"a find through RunCommand":             {runFind, "find", cut, false, "", 2, []int{1, 1}, false},
		"an insert":                             {insert, "insert", cut, false, "", 2, []int{0, 0}, false},
		"an insert, starts asked for":           {insert, "insert", cut, true, "", 2, []int{2}, false},
		"an insert on one that steps down":      {insert, "insert", down, true, "", 2, []int{2}, false},
		"an insert without its write concern":   {insert, "insert", concern, true, "", 2, []int{2}, false},
		"an insert, told not to":                {insert, "insert", cut, false, "&retryWrites=false", 1, []int{1}, true},
		"an update of many":                     {updateMany, "update", cut, false, "", 1, []int{0}, true},
		"an update of many, starts asked for":   {updateMany, "update", cut, true, "", 1, []int{1}, true},
		"a find that was cut, starts asked for": {find, "find", cut, true, "", 2, []int{2}, false},
	}
	drivers(t, func(t *testing.T, d driver) {
		var all sync.WaitGroup // a driver looks for a server for half a second
		for name, tt := range cases {
			s := mongotest.Start(t, mongotest.Options{ReplicaSet: &mongotest.ReplicaSet{Name: "rs"}})
			tl := new(profiler.Timeline)
			p := &profiler.Profiler{Statements: tt.statements, Sinks: []profiler.Sink{tl}}
			c := d.connect(t, p, s.URI("replicaSet=rs"+tt.params), user{})
			if err := c.ping(testContext(t)); err != nil {
				t.Fatal(err)
			}
			s.SetScript(mongotest.OnNth(tt.command, 1, tt.step))
			all.Go(func() {
				if err := tt.call(testContext(t), c); (err != nil) != tt.fails {
					t.Errorf("%s: error %v", name, err)
				}
				c.close()
				seen := 0
				for _, l := range s.Conns() {
					seen += l.Count(tt.command)
				}
				if seen != tt.commands {
					t.Errorf("%s: the server saw %d commands: the driver does not do what this test is about", name, seen)
				}
				ops := operations(tl)
				if len(ops) != len(tt.attempts) {
					t.Errorf("%s: %d operations, want %d", name, len(ops), len(tt.attempts))
					return
				}
				for i, e := range ops {
					if e.Op.Attempts != tt.attempts[i] || (e.Op.Lost > 0) != (e.Op.Attempts > 1) {
						t.Errorf("%s: operation %d: %d attempts, lost %v, want %d", name, i, e.Op.Attempts, e.Op.Lost, tt.attempts[i])
					}
				}
				if last := ops[len(ops)-1].Op; (last.Err != nil) != tt.fails {
					t.Errorf("%s: ended with %v", name, last.Err)
				}
			})
		}
		all.Wait()
	})
}

package mongoprof

import (
	"context"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/mongotest"
	"github.com/connprof/connprof/profiler"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInstrumentWithoutAProfilerChangesNothing(t *testing.T) {
	o := options.Client()
	if Instrument(nil, o) != o || Instrument(nil, nil) != nil {
		t.Error("Instrument(nil, o) is not o")
	}
}

func TestInstrumentLeavesTheUsersOptionsAlone(t *testing.T) {
	o := options.Client().ApplyURI("mongodb://db/?maxPoolSize=7").SetPoolMonitor(&event.PoolMonitor{})
	o.SetDialer(&net.Dialer{Timeout: time.Second})
	before := *o
	got := Instrument(new(profiler.Profiler), o)
	if got == o || !reflect.DeepEqual(*o, before) {
		t.Error("the options were changed")
	}
	if *got.MaxPoolSize != 7 || got.GetURI() != "mongodb://db/?maxPoolSize=7" || got.Hosts[0] != "db" {
		t.Errorf("the copy lost something: %+v", got)
	}
	if o := Instrument(new(profiler.Profiler), nil); o.Dialer == nil || o.HTTPClient == nil {
		t.Error("nil does not stand for options.Client()")
	}
}

func TestInstrumentTwiceIsInstrumentOnce(t *testing.T) {
	p := new(profiler.Profiler)
	user := &net.Dialer{}
	commands, late := &event.CommandMonitor{}, &event.PoolMonitor{}
	once := Instrument(p, options.Client().SetDialer(user).SetMonitor(commands))
	once.SetPoolMonitor(late) // replaces ours: the second call puts it right
	twice := Instrument(p, once)
	w := twice.Dialer.(*wrapped)
	if w.dialer != options.ContextDialer(user) || w.command != commands || w.pool != late || w.server != nil {
		t.Errorf("underneath is %+v", w)
	}
	if w == once.Dialer.(*wrapped) || w.cmap == once.Dialer.(*wrapped).cmap {
		t.Error("two clients share one state")
	}
	other := Instrument(new(profiler.Profiler), twice)
	if o := other.Dialer.(*wrapped); o.dialer != options.ContextDialer(w) || o.pool != twice.PoolMonitor {
		t.Error("a second profiler does not stand around the first")
	}
}

func TestInstrumentAsksForNoStartedEvents(t *testing.T) {
	p := new(profiler.Profiler)
	if Instrument(p, options.Client()).Monitor.Started != nil {
		t.Error("Started is set: the driver will copy each command")
	}
	if Instrument(&profiler.Profiler{Statements: true}, options.Client()).Monitor.Started == nil {
		t.Error("Started is not set, though asked for")
	}
	n := 0
	o := options.Client().SetMonitor(&event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { n++ }})
	if m := Instrument(p, o).Monitor; m.Started == nil {
		t.Error("the user's Started is lost")
	} else if m.Started(context.Background(), &event.CommandStartedEvent{}); n != 1 {
		t.Error("the user's Started was not called")
	}
}

func TestConnect(t *testing.T) {
	s := mongotest.Start(t, mongotest.Options{})
	p := new(profiler.Profiler)
	c, err := Connect(context.Background(), p, s.URI("maxPoolSize=1"), nil, options.Client().SetAppName("x"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.Database("test").Collection("things").InsertOne(context.Background(), bson.D{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Disconnect(context.Background()); err != nil {
		t.Fatal(err)
	}
	first, reused := p.Report().Endpoint(s.Addr(), profiler.RolePool).Queries()
	if first != 1 || reused != 2 {
		t.Errorf("%d first and %d reused commands", first, reused)
	}
	if _, err := Connect(context.Background(), p, "postgres://db"); err == nil {
		t.Error("a wrong URI is no error")
	}
}

package profiler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTimelineIsAsInTheGoldenFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		var tl Timeline
		ctx := WithSink(context.Background(), &tl)

		// The caller waits, its pool makes a connection for it, and two queries run on it; then a connection fails.
		call := Asked(ctx)
		pass(900 * time.Microsecond)
		c := p.NewConn(orders, RolePool)
		dialed(c, 10)
		pass(30 * time.Microsecond)
		c.Ready(call)
		c.CheckedOut(call, 0, Now())
		op(call, c, OpQuery, 1200*time.Microsecond, 400*time.Microsecond, nil)
		c.CheckedIn(Now())

		call = Asked(ctx)
		pass(600 * time.Microsecond)
		c.CheckedOut(call, 0, Now())
		op(call, c, OpExec, 500*time.Microsecond, 0, errors.New("duplicate key"))
		c.CheckedIn(Now())

		d := p.NewConn(orders, RolePool)
		pass(300 * time.Microsecond)
		d.Cut(Connect, Now())
		d.Update(func(cr *Create) { cr.Failed = Connect })
		d.Fail(ctx, fmt.Errorf("dial tcp 10.0.0.7:3306: connect: %w", syscall.ECONNREFUSED))

		var b strings.Builder
		n, err := tl.WriteTo(&b)
		if n != int64(b.Len()) || err != nil {
			t.Errorf("WriteTo = %d, %v, wrote %d bytes", n, err, b.Len())
		}
		golden(t, "timeline.txt", b.String())
	})
}

func TestTimelineOfNothingSaysSo(t *testing.T) {
	var b strings.Builder
	if new(Timeline).WriteTo(&b); b.String() != "nothing happened\n" {
		t.Errorf("got %q", b.String())
	}
}

func TestTimelineIsBoundedAndCountsTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		var tl Timeline
		ctx := WithSink(context.Background(), &tl)
		c := p.NewConn(orders, RolePool)
		c.Ready(ctx)
		for range MaxTimeline + 9 {
			op(ctx, c, OpQuery, time.Microsecond, 0, nil)
		}
		if n := len(tl.Events()); n != MaxTimeline {
			t.Errorf("%d events kept, want %d", n, MaxTimeline)
		}
		var b strings.Builder
		tl.WriteTo(&b)
		if !strings.HasSuffix(b.String(), "\n10 more not kept\n") {
			t.Errorf("the end doesn't say what was dropped: %q", b.String()[b.Len()-40:])
		}
	})
}

package profiler

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestReportTextIsAsInTheGoldenFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var p Profiler
		scripted(&p)
		golden(t, "report.txt", p.Report().String())
	})
}

// What servers and names say can't steer the terminal that a report is read on.
func TestATextIsHarmless(t *testing.T) {
	const steering = "\x1b[2J\x07\u202e\u200b"
	p := new(Profiler)
	var tl Timeline
	e := Endpoint{System: "mysql", Address: "db" + steering, Namespace: steering, Pool: steering}
	c := p.NewConn(e, RolePool)
	c.Fail(WithSink(context.Background(), &tl), fmt.Errorf("Access denied%s\nfor you", steering))
	c = p.NewConn(e, RolePool)
	c.Ready(noContext)
	o := c.Begin(WithSink(context.Background(), &tl), OpCommand, Now())
	o.Name = "find" + steering
	o.End(context.Background(), Now(), nil)
	r := p.Report()
	var b, w strings.Builder
	r.WriteTo(&b)
	n, err := tl.WriteTo(&w)
	for _, text := range []string{b.String(), w.String()} {
		if strings.ContainsAny(text, steering[:1]+steering[len("\x1b[2J"):]) || !strings.Contains(text, `db\x1b[2J\a\u202e\u200b`) {
			t.Errorf("%q", text)
		}
	}
	if !strings.Contains(b.String(), `Access denied\x1b[2J\a\u202e\u200b; for you`) {
		t.Errorf("%q", b.String())
	}
	if int(n) != w.Len() || err != nil {
		t.Errorf("wrote %d bytes and says %d, %v", w.Len(), n, err)
	}
}

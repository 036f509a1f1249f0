package pool

import (
	"net/url"
	"strings"

	"github.com/connprof/connprof/profiler"
)

// SRVHost is the name whose SRV and TXT records a mongodb+srv connection string makes the driver look up; ok is false for other strings.
func SRVHost(uri string) (host string, ok bool) {
	if !strings.HasPrefix(uri, "mongodb+srv://") {
		return "", false
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "", false
	}
	return u.Hostname(), true
}

// LookedUp ends what Profiler.NewConn began for a client's look-ups: all of it was resolve.
func LookedUp(c *profiler.Conn, err error) {
	now := profiler.Now()
	c.Cut(profiler.Resolve, now)
	c.Update(func(cr *profiler.Create) { cr.TotalUnknown = true })
	if err != nil {
		c.Update(func(cr *profiler.Create) { cr.Failed = profiler.Resolve })
		c.Fail(profiler.NoCaller, err)
		return
	}
	c.ReadyAlone(now)
	c.Closed(profiler.CloseUnknown, nil)
}

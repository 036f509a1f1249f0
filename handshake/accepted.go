package handshake

import (
	"net"

	"github.com/connprof/connprof/profiler"
)

// Accepted says that the server has just accepted the login on nc, for drivers that tell: Auth ends now, and what follows until hand-over
// is Setup if there are exchanges in it or SetupTurns is not 0. nc is what a Dialer returned, or something over it that has NetConn, such
// as a *tls.Conn. For any other it does nothing, and nothing after the create's end.
func Accepted(nc net.Conn) {
	at := profiler.Now()
	for nc != nil {
		if c, ok := nc.(interface{ acceptedAt(profiler.Instant) }); ok {
			c.acceptedAt(at)
			return
		}
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		nc = over.NetConn()
	}
}

func (c *conn) acceptedAt(at profiler.Instant) {
	w := c.watching.Load()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.turns.all); n > 0 && !w.over && w.accepted.at == 0 {
		w.accepted = accepted{at: at, turn: n, told: true}
	}
}

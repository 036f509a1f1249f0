package handshake

import (
	"net"

	"github.com/connprof/connprof/profiler"
)

// Accepted says that the server has just accepted the login on nc, for drivers that tell: Auth ended with the last Read, which brought the
// answer, and what follows until hand-over is Setup if there are exchanges in it or SetupTurns is not 0. What the driver computed between
// that Read and this call is not the login's: pgx takes 50 µs for the server's parameters.
//
// nc is what a Dialer returned, or something over it that has NetConn, such as a *tls.Conn. For any other it does nothing, and nothing
// after the create's end.
func Accepted(nc net.Conn) {
	if c, ok := under(nc).(interface{ acceptedNow() }); ok {
		c.acceptedNow()
	}
}

// Refused says that the driver is about to give nc up because of err, for drivers that tell: what the server answered to a login, or that the
// server is not the one that is wanted. If another dial follows, the Attempt has that error. nc is as for Accepted.
func Refused(nc net.Conn, err error) {
	if c, ok := under(nc).(interface{ refusedWith(error) }); ok {
		c.refusedWith(err)
	}
}

// under is the connection of ours that nc is, or is over; nil if there is none.
func under(nc net.Conn) net.Conn {
	for nc != nil {
		if _, ok := nc.(interface{ acceptedNow() }); ok {
			return nc
		}
		over, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = over.NetConn()
	}
	return nil
}

func (c *conn) refusedWith(err error) {
	if w := c.watching(); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.said = err
	}
}

func (c *conn) acceptedNow() {
	now := profiler.Now()
	w := c.watching()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.turns.all); n > 0 && !w.over && w.accepted.at == 0 {
		w.accepted = accepted{at: w.turns.answeredBy(n-1, now), turn: n, told: true}
	}
}

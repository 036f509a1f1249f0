package pgxprof

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/connprof/connprof/profiler"
)

// Closes of a pool for which there is no word: they are unknown, with one of these errors.
var (
	errRefused       = errors.New("pgxprof: close: a hook of the program's refused the connection")
	errInTransaction = errors.New("pgxprof: close: the connection was released inside a transaction")
	errBusy          = errors.New("pgxprof: close: the connection was released while an operation ran on it")
)

// released looks at what makes the pool close a connection that comes back (pgxpool, Conn.Release).
func (m *member) released(conn *pgx.Conn) {
	switch pc := conn.PgConn(); {
	case conn.IsClosed():
	case pc.IsBusy():
		m.unfit = errBusy
	case pc.TxStatus() != 'I':
		m.unfit = errInTransaction
	}
}

// beforeClose says why the pool closes a connection. It runs on a goroutine of the pool's own, and asks the pool nothing.
func (h *poolHooks) beforeClose(conn *pgx.Conn) {
	if m := memberOf(conn); m != nil {
		m.made(nil)
		reason, err := h.reason(m, conn.IsClosed())
		m.closed(reason, err)
		m.exchanges.End()
	}
	if h.closing != nil {
		h.closing(conn)
	}
}

// reason is why the pool closes a connection that was fit when its last operation ended. The pool does so for one that did not answer a
// check, that the program's hooks refuse, that was released in the middle of something or has reached an age or an idle time; all others
// when the pool is closed, or reset. What had reached its age may also have been reset: that is not told apart.
func (h *poolHooks) reason(m *member, broken bool) (profiler.CloseReason, error) {
	now := profiler.Now()
	unused := m.c.ReturnedAt()
	if !unused.Known() {
		unused = m.c.ReadyAt()
	}
	life, idleTime, closed := h.limits.life, h.limits.idleTime, m.poolClosed
	o := m.owner
	if o == nil && !m.later {
		o = h.owners.only()
	}
	if o != nil {
		life, idleTime = o.life, o.idleTime
		if done := o.closed.Load(); closed == nil && done != nil {
			closed = *done
		}
	}
	switch ping := m.ping.Load(); {
	case ping == pinging, ping == abandoned && broken:
		return profiler.CloseStale, nil
	case m.unfit != nil:
		return profiler.CloseUnknown, m.unfit
	case broken:
		return profiler.CloseError, nil
	case closed != nil && ended(closed):
		return profiler.ClosePoolClosed, nil
	case life > 0 && now.Sub(m.c.ReadyAt()) >= life:
		return profiler.CloseLifetime, nil
	case now.Sub(unused) > idleTime:
		return profiler.CloseIdleTime, nil
	case closed != nil:
		return profiler.CloseStale, nil
	}
	return profiler.CloseUnknown, nil
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

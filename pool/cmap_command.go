package pool

import (
	"context"
	"strings"

	"github.com/connprof/connprof/internal/goid"
	"github.com/connprof/connprof/profiler"
)

// Command takes the end of a command, under the operation's context and on the goroutine that the driver reports it on. It does not keep e.
func (m *CMAP) Command(ctx context.Context, e *CommandEvent) {
	if !m.Profiler.Enabled() {
		return
	}
	now := profiler.Now()
	k := m.recent.name(e.ConnectionID)
	if k == nil {
		if v, ok := m.named.Load(e.ConnectionID); ok {
			k = v.(*member)
			m.recent.keepName(k)
		} else {
			k = m.joined(e.ConnectionID)
		}
	}
	if !isOperation(e.Name) {
		if e.Name == "endSessions" && k != nil {
			k.conn.Excluded()
		}
		return
	}
	if k == nil {
		m.unjoined.Add(1)
		m.Profiler.OperationUntied()
		m.untied(ctx, e)
		return
	}
	op := &k.op // its fields are the driver's names, of which there are few: nothing large is kept
	k.conn.BeginSelected(op, ctx, profiler.OpCommand, now.Add(-e.Duration))
	op.Name, op.NS, op.Turns = e.Name, e.Database, 1
	var s started
	if k.text.known {
		s = k.text.take(e.RequestID)
		op.Coll = s.coll
	}
	tries := 0
	if m.holding.Load() > 0 {
		if h := m.repeated(ctx, e, &s); h != nil && h.maybe {
			op.AttemptsUnknown()
		} else if h != nil {
			tries = h.tries + 1
			op.Repeats(&h.op)
		}
	}
	if e.Err == nil {
		if m.succeeded(k, e, op) {
			op.Exclude(now)
			return
		}
		if s.number.txn != 0 && labelled(e.Reply) {
			e.RetryableWrite = true
		}
	}
	if (e.RetryableRead || e.RetryableWrite || e.Overloaded) && m.hold(ctx, e, &s, op, tries, now) {
		return
	}
	op.End(ctx, now, e.Err) // its first response, too
	if e.Err != nil {
		o := op.Outcome()
		k.gaveUp = o == profiler.Timeout || o == profiler.Canceled
	}
}

// succeeded looks at a reply, and reports whether the command's duration is no latency.
func (m *CMAP) succeeded(k *member, e *CommandEvent, op *profiler.Op) (exclude bool) {
	if isUnacknowledged(e.Name, e.Reply) {
		return true
	}
	switch e.Name {
	case "getMore":
	case "find", "aggregate", "listIndexes", "listCollections":
		if !op.Told() {
			return false
		}
	default:
		return false
	}
	c, ok := parseCursor(e.Reply)
	if !ok {
		return false
	}
	op.Cursor = c.id
	if coll := c.collection(); len(coll) > 0 {
		if string(coll) != k.collection {
			k.collection = string(coll)
		}
		op.Coll = k.collection
	}
	if e.Name == "getMore" && c.awaited() {
		m.apart.Add(1)
		return true
	}
	return false
}

// join notes that the next command of this goroutine on a connection without a known name is k's.
func (m *CMAP) join(k *member) {
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unjoinLocked(k)
	if other := m.joining[g]; other != nil {
		m.unjoinLocked(other)
	}
	if k.lost { // it is k, or one that was taken for closed
		m.doubtLocked(g, k.slot)
		return
	}
	m.assuredLocked(g)
	if k.gone || k.unlisted {
		return
	}
	if m.joining == nil {
		m.joining = make(map[uint64]*member)
	}
	m.joining[g] = k
	k.user = g
	m.waiting.Store(int32(len(m.joining) + len(m.doubts)))
}

// unjoin forgets what this goroutine had checked out: it now has another connection, of which no name can be learned.
func (m *CMAP) unjoin() {
	if m.waiting.Load() == 0 {
		return
	}
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.joining[g]; k != nil {
		m.unjoinLocked(k)
	}
	m.assuredLocked(g)
}

// joined is the connection that this goroutine has checked out, which the driver turns out to name so.
func (m *CMAP) joined(driver string) *member {
	if m.waiting.Load() == 0 {
		return nil
	}
	g := goid.Get()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.joining[g]
	if k != nil && !names(driver, k.slot.address) {
		return nil
	}
	if k == nil {
		var s started
		if k, s = m.settledLocked(g, driver); k == nil {
			return nil
		}
		k.text = s
	}
	m.unjoinLocked(k)
	k.unfollowLocked()
	k.driver = driver
	k.known.Store(true)
	m.named.Store(driver, k)
	return k
}

// names reports whether the driver's name "address[-N]" is one of a connection to address.
func names(driver, address string) bool {
	rest, ok := strings.CutPrefix(driver, address)
	return ok && strings.HasPrefix(rest, "[-")
}

// isOperation tells a caller's commands from the driver's own.
func isOperation(command string) bool {
	switch command {
	case "hello", "isMaster", "ismaster", "saslStart", "saslContinue", "endSessions", "ping":
		return false
	}
	return true
}

// isUnacknowledged tells a write that was sent without waiting for a reply by the reply {ok: 1} that both drivers make up for it
// (moreToComeRoundTrip in x/mongo/driver/operation.go). A server's own reply to a write says more, and its ok is a double.
func isUnacknowledged(command string, reply []byte) bool {
	if string(reply) != "\x0d\x00\x00\x00\x10ok\x00\x01\x00\x00\x00\x00" {
		return false
	}
	switch command {
	case "insert", "update", "delete", "bulkWrite", "findAndModify":
		return true
	}
	return false
}

package pool

import "context"

// started is the command that began last on a connection: one for each connection, so that starts without an end can't pile up.
type started struct {
	request int64
	coll    string
}

// take is the collection of the request, "" if another began since: that one's end was never told, or is still to come.
func (s *started) take(request int64) (coll string) {
	if s.request == request {
		coll = s.coll
	}
	*s = started{}
	return coll
}

// Started takes the start of a command, for clients that pay for such events: it names the collection of every command, where otherwise
// only replies that have a cursor do. Nothing else of the command is looked at, and nothing of it is kept.
func (m *CMAP) Started(_ context.Context, e StartedEvent) {
	if !m.Profiler.Enabled() || !isOperation(e.Name) {
		return
	}
	k := m.recent.name(e.ConnectionID)
	if k == nil {
		if v, ok := m.named.Load(e.ConnectionID); ok {
			k = v.(*member)
		} else if k = m.joined(e.ConnectionID); k == nil {
			return
		}
	}
	if k.text.coll != "" {
		m.abandoned.Add(1)
	}
	coll := ""
	walk(e.Command, func(kind byte, key, value []byte) bool { // the first field is the command's name, its value often the collection
		if kind == 2 && string(key) == e.Name {
			coll = string(value[4 : len(value)-1])
			return false
		}
		if e.Name != "getMore" {
			return false
		}
		if kind == 2 && string(key) == "collection" {
			coll = string(value[4 : len(value)-1])
			return false
		}
		return true
	})
	k.text = started{e.RequestID, coll}
}

package pool

import (
	"context"
	"encoding/binary"
)

// started is the command that began last on a connection: one for each connection, so that starts without an end can't pile up.
type started struct {
	known       bool
	transaction bool // it runs in one
	request     int64
	coll        string
	number      number
}

// take is the start of the request, zero if another began since: that one's end was never told, or is still to come.
func (s *started) take(request int64) (t started) {
	if s.request == request {
		t = *s
	}
	*s = started{}
	return t
}

// Started takes the start of a command, for clients that pay for such events: it names the collection of every command, where otherwise
// only replies that have a cursor do, and it tells which writes repeat one that failed. Nothing else of the command is looked at, and
// nothing of it is kept.
func (m *CMAP) Started(_ context.Context, e StartedEvent) {
	if !m.Profiler.Enabled() || !isOperation(e.Name) {
		return
	}
	k := m.recent.name(e.ConnectionID)
	if k == nil {
		if v, ok := m.named.Load(e.ConnectionID); ok {
			k = v.(*member)
		} else if m.begins(&e) {
			return
		} else if k = m.joined(e.ConnectionID); k == nil {
			return
		}
	}
	if k.text.known {
		m.abandoned.Add(1)
		k.site.abandoned.Add(1)
	}
	k.text = startOf(&e)
}

// startOf reads a command. Its first field is its name, the value often the collection.
func startOf(e *StartedEvent) started {
	s := started{known: true, request: e.RequestID}
	walk(e.Command, func(kind byte, key, value []byte) bool {
		switch {
		case kind == 2 && (string(key) == e.Name || e.Name == "getMore" && string(key) == "collection"):
			s.coll = string(value[4 : len(value)-1])
		case kind == 3 && string(key) == "lsid":
			walk(value, func(kind byte, key, value []byte) bool {
				if kind == 5 && string(key) == "id" && len(value) >= 5+len(s.number.session) {
					copy(s.number.session[:], value[5:])
				}
				return true
			})
		case kind == 0x12 && string(key) == "txnNumber":
			s.number.txn = int64(binary.LittleEndian.Uint64(value))
		case kind == 8 && string(key) == "autocommit": // there in a transaction only, and false
			s.transaction = true
		}
		return true
	})
	if s.number.txn == 0 { // a session's commands without a number are no repetitions of each other
		s.number = number{}
	}
	return s
}

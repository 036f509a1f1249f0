package pool

import (
	"bytes"
	"encoding/binary"
)

// cursorReply is what a reply says of its cursor. Its slices point into the reply.
type cursorReply struct {
	id     int64  // 0: exhausted
	ns     []byte // "database.collection"
	empty  bool   // the batch has no documents
	stream bool   // a change stream's
}

// collection is the part of ns after the database.
func (c *cursorReply) collection() []byte {
	_, coll, _ := bytes.Cut(c.ns, []byte("."))
	return coll
}

// awaited says that a getMore waited for new data: only a cursor that awaits data has an empty batch and stays open, and a change stream's
// always awaits. A tailable cursor's getMore that got data at last looks like any other.
func (c *cursorReply) awaited() bool { return c.stream || c.empty && c.id != 0 }

// parseCursor finds the cursor in a reply: BSON (bsonspec.org, version 1.1). It gives up on what it does not know; ok is then false.
func parseCursor(reply []byte) (c cursorReply, ok bool) {
	walk(reply, func(kind byte, key, value []byte) bool {
		if kind != 3 || string(key) != "cursor" {
			return true
		}
		ok = true
		walk(value, func(kind byte, key, value []byte) bool {
			switch {
			case kind == 0x12 && string(key) == "id":
				c.id = int64(binary.LittleEndian.Uint64(value))
			case kind == 2 && string(key) == "ns":
				c.ns = value[4 : len(value)-1]
			case kind == 4 && (string(key) == "nextBatch" || string(key) == "firstBatch"):
				c.empty = len(value) == 5
			case string(key) == "postBatchResumeToken":
				c.stream = true
			}
			return true
		})
		return false
	})
	return c, ok
}

// walk calls f for each element of a document, until it returns false, and stops at what it does not know or what is too long.
func walk(doc []byte, f func(kind byte, key, value []byte) bool) {
	if len(doc) < 5 {
		return
	}
	if n := binary.LittleEndian.Uint32(doc); uint64(n) > uint64(len(doc)) || n < 5 {
		return
	} else {
		doc = doc[4:n]
	}
	for len(doc) > 1 {
		kind := doc[0]
		end := bytes.IndexByte(doc[1:], 0)
		if end < 0 {
			return
		}
		key := doc[1 : 1+end]
		doc = doc[2+end:]
		n := valueLen(kind, doc)
		if n < 0 || n > len(doc) {
			return
		}
		if !f(kind, key, doc[:n]) {
			return
		}
		doc = doc[n:]
	}
}

// valueLen is the length of a value, -1 if it is not known.
func valueLen(kind byte, b []byte) int {
	switch kind {
	case 0x01, 0x09, 0x11, 0x12: // double, date, timestamp, int64
		return 8
	case 0x10: // int32
		return 4
	case 0x08: // bool
		return 1
	case 0x0a, 0x06, 0x7f, 0xff: // null, undefined, max key, min key
		return 0
	case 0x07: // object id
		return 12
	case 0x13: // decimal
		return 16
	}
	if len(b) < 4 {
		return -1
	}
	n := binary.LittleEndian.Uint32(b)
	if n > 64<<20 { // longer than any message
		return -1
	}
	switch kind {
	case 0x02: // string: its length counts the final zero
		if n == 0 {
			return -1
		}
		return int(n) + 4
	case 0x03, 0x04: // document, array
		if n < 5 {
			return -1
		}
		return int(n)
	case 0x05: // binary
		return int(n) + 5
	}
	return -1
}

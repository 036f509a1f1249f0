package mongotest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Opcodes and flags of the wire protocol (mongodb.com/docs/manual/reference/mongodb-wire-protocol).
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013

	checksumPresent = 1 << 0 // OP_MSG
	moreToCome      = 1 << 1
	exhaustAllowed  = 1 << 16

	awaitCapable = 1 << 3 // OP_REPLY

	maxMessage = 48_000_000
	maxDoc     = 16 << 20
)

// errWire is wrapped by what is wrong with a message, as opposed to a connection that ended.
var errWire = errors.New("mongotest: malformed message")

// request is one message from the client: OP_MSG, or OP_QUERY as the drivers send it for their first hello.
type request struct {
	id    int32
	query bool   // OP_QUERY
	flags uint32 // of OP_MSG
	body  bson.Raw
	docs  map[string][]bson.Raw // the document sequences of OP_MSG by name
	at    time.Time
}

// command is the name of the command, "hello" for all three names of that.
func (r request) command() string {
	e, err := r.body.IndexErr(0)
	if err != nil {
		return ""
	}
	if name := e.Key(); !strings.EqualFold(name, "ismaster") {
		return name
	}
	return "hello"
}

// awaited reports whether r is an awaitable hello.
func (r request) awaited() bool {
	_, tv := r.body.Lookup("topologyVersion").DocumentOK()
	_, ms := r.body.Lookup("maxAwaitTimeMS").AsInt64OK()
	return tv && ms && r.command() == "hello"
}

func readRequest(rd io.Reader) (request, error) {
	var header [16]byte
	if _, err := io.ReadFull(rd, header[:]); err != nil {
		return request{}, err
	}
	size, op := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[12:])
	if size < 16+4 || size > maxMessage {
		return request{}, fmt.Errorf("%w: length %d", errWire, size)
	}
	rest := make([]byte, size-16)
	if _, err := io.ReadFull(rd, rest); err != nil {
		return request{}, err
	}
	r := request{id: int32(binary.LittleEndian.Uint32(header[4:])), at: time.Now()}
	var ok bool
	switch op {
	case opQuery:
		ok = r.parseQuery(rest)
	case opMsg:
		ok = r.parseMsg(rest)
	}
	if !ok || r.body.Validate() != nil {
		return request{}, fmt.Errorf("%w: opcode %d", errWire, op)
	}
	return r, nil
}

// parseQuery: flags int32, collection cstring, skip int32, return int32, query document, fields document (optional).
func (r *request) parseQuery(b []byte) (ok bool) {
	r.query = true
	end := bytes.IndexByte(b[4:], 0)
	if end < 0 || len(b) < 4+end+1+8 {
		return false
	}
	r.body, _, ok = cutDoc(b[4+end+1+8:])
	return ok
}

// parseMsg: flags uint32, then sections: 0 and a document, or 1, the size int32, a name cstring and documents.
func (r *request) parseMsg(b []byte) (ok bool) {
	r.flags, r.docs = binary.LittleEndian.Uint32(b), map[string][]bson.Raw{}
	if b = b[4:]; r.flags&checksumPresent != 0 {
		if len(b) < 4 {
			return false
		}
		b = b[:len(b)-4]
	}
	for len(b) > 0 {
		kind := b[0]
		switch b = b[1:]; {
		case kind == 0 && r.body == nil:
			if r.body, b, ok = cutDoc(b); !ok {
				return false
			}
		case kind == 1 && len(b) >= 4:
			size := binary.LittleEndian.Uint32(b)
			if size < 4 || uint64(size) > uint64(len(b)) {
				return false
			}
			name, seq, found := bytes.Cut(b[4:size], []byte{0})
			if b = b[size:]; !found {
				return false
			}
			for len(seq) > 0 {
				var doc bson.Raw
				if doc, seq, ok = cutDoc(seq); !ok || doc.Validate() != nil {
					return false
				}
				r.docs[string(name)] = append(r.docs[string(name)], doc)
			}
		default:
			return false
		}
	}
	return r.body != nil
}

// cutDoc splits a document from the front of b.
func cutDoc(b []byte) (doc bson.Raw, rest []byte, ok bool) {
	if len(b) < 5 {
		return nil, b, false
	}
	n := binary.LittleEndian.Uint32(b)
	if n < 5 || uint64(n) > uint64(len(b)) {
		return nil, b, false
	}
	return bson.Raw(b[:n]), b[n:], true
}

// appendReply appends the reply to r in the kind of message that it came in.
func appendReply(dst []byte, r request, id int32, doc bson.D, more bool) ([]byte, error) {
	raw, err := bson.Marshal(doc)
	if err != nil {
		return dst, fmt.Errorf("mongotest: reply: %w", err)
	}
	le, start := binary.LittleEndian, len(dst)
	dst = le.AppendUint32(dst, 0) // the length, set below
	dst = le.AppendUint32(dst, uint32(id))
	dst = le.AppendUint32(dst, uint32(r.id))
	if r.query {
		dst = le.AppendUint32(dst, opReply)
		dst = le.AppendUint32(dst, awaitCapable)
		dst = le.AppendUint64(dst, 0) // cursorID
		dst = le.AppendUint32(dst, 0) // startingFrom
		dst = le.AppendUint32(dst, 1) // numberReturned
	} else {
		var flags uint32
		if more {
			flags = moreToCome
		}
		dst = le.AppendUint32(dst, opMsg)
		dst = le.AppendUint32(dst, flags)
		dst = append(dst, 0)
	}
	dst = append(dst, raw...)
	le.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

package mongotest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// message puts a header before a body.
func message(op uint32, body []byte) []byte {
	le := binary.LittleEndian
	m := le.AppendUint32(nil, uint32(16+len(body)))
	m = le.AppendUint32(m, 7)
	m = le.AppendUint32(m, 0)
	return append(le.AppendUint32(m, op), body...)
}

func ping() []byte {
	doc, _ := bson.Marshal(bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "admin"}})
	return doc
}

func TestMalformedMessagesAreRefused(t *testing.T) {
	le := binary.LittleEndian
	tests := map[string][]byte{
		"length below the header":         le.AppendUint32(nil, 3),
		"length of a gigabyte":            le.AppendUint32(nil, 1<<30),
		"unknown opcode":                  message(2012, make([]byte, 40)),
		"query without end of collection": message(opQuery, bytes.Repeat([]byte{1}, 40)),
		"query without document":          message(opQuery, make([]byte, 13)),
		"message without a body":          message(opMsg, make([]byte, 4)),
		"message with half a body":        message(opMsg, append(make([]byte, 5), ping()[:20]...)),
		"message with two bodies":         message(opMsg, append(append(make([]byte, 5), ping()...), append([]byte{0}, ping()...)...)),
		"sequence longer than message":    message(opMsg, append(append(make([]byte, 5), ping()...), 1, 200, 0, 0, 0, 'x', 0)),
		"sequence without a name":         message(opMsg, append(append(make([]byte, 5), ping()...), 1, 5, 0, 0, 0, 'x')),
		"section of an unknown kind":      message(opMsg, append(append(make([]byte, 5), ping()...), 2)),
	}
	for name, wire := range tests {
		t.Run(name, func(t *testing.T) {
			wire = append(wire, make([]byte, max(0, 16-len(wire)))...)
			if _, err := readRequest(bytes.NewReader(wire)); !errors.Is(err, errWire) {
				t.Errorf("got %v, want a malformed message", err)
			}
		})
	}
}

func TestCutMessageIsAnEnd(t *testing.T) {
	wire := message(opMsg, append(make([]byte, 5), ping()...))
	r, err := readRequest(bytes.NewReader(wire))
	if err != nil || r.command() != "ping" || r.id != 7 {
		t.Fatalf("request %+v, %v", r, err)
	}
	for n := range wire {
		if _, err := readRequest(bytes.NewReader(wire[:n])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add(message(opMsg, append(make([]byte, 5), ping()...)))
	f.Add(message(opMsg, append(append(make([]byte, 5), ping()...), append([]byte{1, byte(4 + 2 + len(ping())), 0, 0, 0, 'd', 0}, ping()...)...)))
	f.Add(message(opQuery, append([]byte{4, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 255, 255, 255, 255}, ping()...)))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := readRequest(bytes.NewReader(wire))
		if err == nil {
			_, _ = r.command(), r.awaited()
		}
	})
}

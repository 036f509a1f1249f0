// Package handshake dials database connections and watches their making on the wire, from below TLS. It answers one question: which phase
// of a create took how long?
package handshake

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
)

// pgServer is the client's end of a connection to a PostgreSQL server that answers at once, with as little as the protocol allows: nothing
// leaves the process, and no other goroutine runs. What is measured on it is pgx and what traces it.
type pgServer struct {
	started bool
	in, out []byte
	closed  bool
}

func dialServer(context.Context, string, string) (net.Conn, error) { return new(pgServer), nil }

// Write takes whole messages, as pgx sends them, and queues the answers.
func (s *pgServer) Write(b []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	s.in = append(s.in, b...)
	for {
		head := 5
		if !s.started {
			head = 4
		}
		if len(s.in) < head {
			break
		}
		size := head - 4 + int(binary.BigEndian.Uint32(s.in[head-4:]))
		if len(s.in) < size {
			break
		}
		s.answer(s.in[:size])
		s.in = s.in[:copy(s.in, s.in[size:])]
	}
	return len(b), nil
}

func (s *pgServer) answer(m []byte) {
	if !s.started {
		s.started = true
		s.message('R', 0, 0, 0, 0) // AuthenticationOk
		s.message('S', []byte("standard_conforming_strings\x00on\x00")...)
		s.message('S', []byte("client_encoding\x00UTF8\x00")...)
		s.message('Z', 'I')
		return
	}
	switch m[0] {
	case 'Q':
		s.message('T', 0, 1, 'n', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, 0) // one column, int4 in text
		s.message('D', 0, 1, 0, 0, 0, 1, '1')
		s.message('C', []byte("SELECT 1\x00")...)
		s.message('Z', 'I')
	case 'X':
		s.closed = true
	}
}

func (s *pgServer) message(kind byte, body ...byte) {
	s.out = append(s.out, kind)
	s.out = binary.BigEndian.AppendUint32(s.out, uint32(4+len(body)))
	s.out = append(s.out, body...)
}

func (s *pgServer) Read(b []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	if len(s.out) == 0 {
		return 0, errors.Join(io.ErrNoProgress, errors.New("overhead: pgx waits for more than the server has to say"))
	}
	n := copy(b, s.out)
	s.out = s.out[:copy(s.out, s.out[n:])]
	return n, nil
}

func (s *pgServer) Close() error                     { s.closed = true; return nil }
func (s *pgServer) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (s *pgServer) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5432} }
func (s *pgServer) SetDeadline(time.Time) error      { return nil }
func (s *pgServer) SetReadDeadline(time.Time) error  { return nil }
func (s *pgServer) SetWriteDeadline(time.Time) error { return nil }

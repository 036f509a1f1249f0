package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is the domain of the databases' names. The top-level domain is reserved for such use (RFC 6761 §6.2).
const zone = "shop.test."

// A nameServer answers for every name below zone with 127.0.0.1, after a delay.
type nameServer struct {
	conn    net.PacketConn
	delay   time.Duration
	serving sync.WaitGroup
}

func newNameServer(delay time.Duration) (*nameServer, error) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	s := &nameServer{conn: c, delay: delay}
	s.serving.Go(s.serve)
	return s, nil
}

func (s *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		reply, err := answer(buffer[:n])
		if err != nil {
			continue
		}
		s.serving.Go(func() {
			time.Sleep(s.delay)
			_, _ = s.conn.WriteTo(reply, from)
		})
	}
}

// answer is the reply to one question.
func answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionDesired: m.RecursionDesired},
		Questions: m.Questions,
	}
	for _, q := range m.Questions {
		switch {
		case !strings.HasSuffix(q.Name.String(), "."+zone):
			reply.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return reply.Pack()
}

// DialContext dials as a net.Dialer does that asks this server for names, and no file. It is what the drivers are given. Each dial has a
// Resolver of its own: those that share one share the answer, too, if they ask at the same time, and the later one waits for less.
func (s *nameServer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
		},
	}}
	return d.DialContext(ctx, network, address)
}

func (s *nameServer) close() {
	s.conn.Close()
	s.serving.Wait()
}

package pgxprof

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// script runs a server that does f to every connection.
func script(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, f)
	return l.Addr().String()
}

func serve(t *testing.T, l net.Listener, f func(net.Conn)) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				f(nc)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
}

// hang keeps a connection until its peer leaves.
func hang(nc net.Conn) { io.Copy(io.Discard, nc) }

// sslRequest is PostgreSQL's (protocol §55.7).
var sslRequest = []byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}

// without is a way to the server at addr on which TLS is refused.
func without(addr string) func(net.Conn) {
	return func(nc net.Conn) {
		head := make([]byte, 8)
		if _, err := io.ReadFull(nc, head); err != nil {
			return
		}
		if bytes.Equal(head, sslRequest) {
			nc.Write([]byte("N"))
			hang(nc)
			return
		}
		server, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer server.Close()
		server.Write(head)
		var back sync.WaitGroup
		back.Go(func() {
			io.Copy(nc, server)
			nc.Close()
		})
		io.Copy(server, nc)
		server.Close()
		back.Wait()
	}
}

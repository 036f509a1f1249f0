package mongotest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// conn is one connection. One goroutine answers; another reads, so that a client that leaves ends a delay, a hang or a stream of
// hello replies at once.
type conn struct {
	srv      *Server
	raw      net.Conn // below TLS; closing it needs no word from the peer
	net      net.Conn // raw, or TLS over it
	requests chan request
	nextID   int32 // the requestID of the next reply
	login    login // the SCRAM conversation, if any

	ctx    context.Context // done when the connection is closed by either side
	cancel context.CancelFunc
	once   sync.Once // for close

	log   ConnLog        // guarded by srv.mu
	calls map[string]int // calls by command, for Call.NConn; guarded by srv.mu
}

func newConn(s *Server, raw net.Conn, id int64) *conn {
	c := &conn{srv: s, raw: raw, net: raw, requests: make(chan request), calls: map[string]int{}}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.log = ConnLog{ID: id, Remote: raw.RemoteAddr().String(), Accepted: time.Now()}
	return c
}

// close closes the socket and enters that into the log. It may be called more than once and from anywhere.
func (c *conn) close() {
	c.once.Do(func() {
		c.cancel()
		c.raw.Close()
		c.edit(func(log *ConnLog) { log.Closed = time.Now() })
	})
}

func (c *conn) serve() {
	defer c.close()
	if !c.begin() {
		return
	}
	c.srv.wg.Go(c.read)
	for r := range c.requests {
		if !c.answer(r) {
			return
		}
	}
}

// begin does what comes before the first command: the script's step for Accept and the TLS handshake.
func (c *conn) begin() bool {
	step := c.srv.next(c, Call{Command: Accept})
	if !c.wait(step.Delay) || step.Close {
		return false
	}
	if step.Hang {
		_, _ = io.Copy(io.Discard, c.raw) // until the client or close ends it
		return false
	}
	if c.srv.opts.TLS == nil {
		return true
	}
	tc := tls.Server(c.raw, c.srv.opts.TLS)
	if err := tc.HandshakeContext(c.ctx); err != nil {
		c.fail(err)
		return false
	}
	state := tc.ConnectionState()
	c.net = tc
	c.edit(func(log *ConnLog) { log.TLS = &state })
	return true
}

// read hands requests to serve until the connection ends.
func (c *conn) read() {
	defer close(c.requests)
	defer c.cancel()
	for {
		r, err := readRequest(c.net)
		if err != nil {
			if errors.Is(err, errWire) {
				c.fail(err)
			}
			return
		}
		select {
		case c.requests <- r:
		case <-c.ctx.Done():
			return
		}
	}
}

// answer carries out one request. It returns false if the connection is to be closed.
func (c *conn) answer(r request) bool {
	call := Call{Command: r.command(), Body: r.body, Awaited: r.awaited()}
	if call.Command == "hello" {
		_, err := r.body.LookupErr("speculativeAuthenticate")
		call.Speculative = err == nil
	}
	index := c.enter(Command{Name: call.Command, At: r.at, Awaited: call.Awaited, Legacy: r.query})
	step := c.srv.next(c, call)
	if !c.wait(step.Delay) || step.Close {
		return false
	}
	if step.Hang {
		<-c.ctx.Done()
		return false
	}
	var ok bool
	switch {
	case step.Error != nil:
		_, ok = c.reply(r, index, step.Error.reply(), false)
	case step.Reply != nil:
		_, ok = c.reply(r, index, step.Reply, false)
	case call.Awaited:
		ok = c.stream(r, index)
	default:
		_, ok = c.reply(r, index, c.run(call.Command, r), false)
	}
	return ok
}

// reply writes one reply to the command at index of the log, unless the client said that it wants none, and returns its requestID.
// With more, further replies follow.
func (c *conn) reply(r request, index int, doc bson.D, more bool) (id int32, ok bool) {
	if r.flags&moreToCome != 0 {
		return 0, true
	}
	c.nextID++
	wire, err := appendReply(nil, r, c.nextID, doc, more)
	if err != nil {
		c.fail(err)
		return 0, false
	}
	c.replied(index)
	_, err = c.net.Write(wire)
	return c.nextID, err == nil
}

// wait waits for d, and reports whether the connection is still open.
func (c *conn) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// next counts the call and asks the script what to do.
func (s *Server) next(c *conn, call Call) Step {
	s.mu.Lock()
	key := strings.ToLower(call.Command)
	s.seen[key]++
	c.calls[key]++
	call.Conn, call.N, call.NConn = c.log.ID, s.seen[key], c.calls[key]
	script := s.script
	s.mu.Unlock()
	if script == nil {
		return Step{}
	}
	return script(call)
}

func (c *conn) enter(cmd Command) (index int) {
	c.edit(func(log *ConnLog) {
		index = len(log.Commands)
		log.Commands = append(log.Commands, cmd)
	})
	return index
}

func (c *conn) replied(index int) {
	c.edit(func(log *ConnLog) {
		if at := &log.Commands[index].Replied; at.IsZero() {
			*at = time.Now()
		}
	})
}

func (c *conn) fail(err error) { c.edit(func(log *ConnLog) { log.Err = err }) }

package mongotest

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxWireVersion is MongoDB 7.0's.
const maxWireVersion = 21

// hello answers a hello or isMaster.
func (c *conn) hello(r request) bson.D {
	d, _ := c.describe()
	if c.srv.opts.LoadBalanced {
		d = append(d, bson.E{Key: "msg", Value: "isdbgrid"})
		if lb, ok := r.body.Lookup("loadBalanced").BooleanOK(); ok && lb {
			d = append(d, bson.E{Key: "serviceId", Value: c.srv.processID})
		}
	}
	if user, ok := r.body.Lookup("saslSupportedMechs").StringValueOK(); ok && c.srv.knows(user) {
		d = append(d, bson.E{Key: "saslSupportedMechs", Value: bson.A{scramSHA256}})
	}
	if start, ok := r.body.Lookup("speculativeAuthenticate").DocumentOK(); ok && !c.srv.opts.NoSpeculation && c.srv.scram != nil {
		// A failed speculation is left out of the reply, and the client starts again (MongoDB's auth specification).
		if reply, err := c.saslStart(start); err == nil {
			d = append(d, bson.E{Key: "speculativeAuthenticate", Value: reply})
			c.edit(func(log *ConnLog) { log.Speculative = true })
		}
	}
	return append(d, bson.E{Key: "ok", Value: 1.0})
}

// describe is the part of a hello reply that does not depend on the request, without "ok", and its topologyVersion counter.
func (c *conn) describe() (d bson.D, counter int64) {
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	primary := s.replica == nil || !s.replica.Secondary
	d = bson.D{
		{Key: "helloOk", Value: true},
		{Key: "ismaster", Value: primary},
		{Key: "isWritablePrimary", Value: primary},
		{Key: "maxBsonObjectSize", Value: int32(maxDoc)},
		{Key: "maxMessageSizeBytes", Value: int32(maxMessage)},
		{Key: "maxWriteBatchSize", Value: int32(100_000)},
		{Key: "localTime", Value: time.Now()},
		{Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "connectionId", Value: int32(c.log.ID)},
		{Key: "minWireVersion", Value: int32(0)},
		{Key: "maxWireVersion", Value: int32(maxWireVersion)},
		{Key: "readOnly", Value: false},
	}
	if rs := s.replica; rs != nil {
		hosts, leader := slices.Clone(rs.Hosts), rs.Primary
		if len(hosts) == 0 {
			hosts = []string{s.Addr()}
		}
		if leader == "" && primary {
			leader = s.Addr()
		}
		d = append(d, bson.E{Key: "setName", Value: rs.Name}, bson.E{Key: "hosts", Value: hosts}, bson.E{Key: "me", Value: s.Addr()},
			bson.E{Key: "secondary", Value: rs.Secondary})
		if leader != "" {
			d = append(d, bson.E{Key: "primary", Value: leader})
		}
	}
	if s.opts.Streaming {
		d = append(d, bson.E{Key: "topologyVersion", Value: bson.D{{Key: "processId", Value: s.processID}, {Key: "counter", Value: s.counter}}})
	}
	return d, s.counter
}

// SetReplicaSet changes what hello says of the replica set, nil making the server a standalone one. Clients that stream hello learn
// it at once, others with their next heartbeat.
func (s *Server) SetReplicaSet(rs *ReplicaSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica = rs
	s.counter++
	close(s.changed)
	s.changed = make(chan struct{})
}

// stream answers an awaitable hello: at once if the client's topologyVersion is an old one, otherwise when it changes or after
// maxAwaitTimeMS. If the client allows exhaust, replies go on in this way, each to the one before it, for as long as the connection
// lives (MongoDB's server monitoring specification, "Streaming Protocol").
func (c *conn) stream(r request, index int) bool {
	ms, _ := r.body.Lookup("maxAwaitTimeMS").AsInt64OK()
	process, _ := r.body.Lookup("topologyVersion", "processId").ObjectIDOK()
	known, _ := r.body.Lookup("topologyVersion", "counter").AsInt64OK()
	exhaust := r.flags&exhaustAllowed != 0 && c.srv.opts.Streaming
	for {
		if c.srv.opts.Streaming && process == c.srv.processID && !c.awaitChange(known, time.Duration(ms)*time.Millisecond) {
			return false
		}
		d, counter := c.describe()
		id, ok := c.reply(r, index, append(d, bson.E{Key: "ok", Value: 1.0}), exhaust)
		if !ok || !exhaust {
			return ok
		}
		r.id, known, process = id, counter, c.srv.processID
	}
}

// awaitChange waits until the topologyVersion is newer than known, at most for d, and reports whether the connection is still open.
func (c *conn) awaitChange(known int64, d time.Duration) bool {
	c.srv.mu.Lock()
	counter, changed := c.srv.counter, c.srv.changed
	c.srv.mu.Unlock()
	if counter > known {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
		return true
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

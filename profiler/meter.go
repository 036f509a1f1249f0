package profiler

import "context"

// A Meter counts what passes on one connection's wire while an operation runs: package handshake's connections have one. A connection has
// one user at a time, who calls Begin and End.
type Meter interface {
	// Begin begins to count, from zero.
	Begin()
	// Answered is the number of round trips since Begin, zero if it is not known; and the return of the read that answered the last of them,
	// zero where that is not known or not kept.
	Answered() (turns int, at Instant)
	// Bytes is what was written to the network since Begin and what was read from it, under TLS as it was encrypted.
	Bytes() (sent, received int64, known bool)
	// End ends the counting. What was counted stays until Begin.
	End()
}

// Metered is a Watcher of a wire that has a Meter for the time after the create.
type Metered interface {
	Watcher
	Meter() Meter
}

// Meter is that of the wire that was dialed for c, nil if nobody watches it. It is there while c is being made: ask before Ready.
func (c *Conn) Meter() Meter {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := c.watcher.(Metered); ok {
		return m.Meter()
	}
	return nil
}

// Wanted reports whether a Sink will be told of the operation, as far as Decliners know before it runs. What all of them decline now they
// are not asked for again.
func (o *Op) Wanted(ctx context.Context) bool {
	if o.c == nil || o.quiet {
		return false
	}
	p := o.c.p
	if !p.wants(o.m) {
		return false
	}
	if o.m != nil && o.m.sink != nil {
		return true
	}
	for _, k := range [...]Kind{KindOperation, KindFirstResponse} {
		if p.wanting(0, ctx, k, o.c, o.n) < len(p.Sinks) {
			return true
		}
	}
	o.unwanted = true
	return false
}

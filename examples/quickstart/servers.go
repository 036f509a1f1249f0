package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/examples/internal/wan"
)

// setup is what the experiment runs against.
type setup struct {
	variants []*variant
	stops    []func() error
}

// stop closes the servers and the link, the last started first.
func (s *setup) stop() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		_ = s.stops[i]()
	}
}

// key is the row that query i asks for: one of the first few. The embedded servers search their rows one after the other, and what is to be
// measured here is the client's time, not theirs.
func key(i int) string { return embedded.Key(i % min(embedded.Rows, 10)) }

// A dialFunc is net.Dialer's DialContext or that of the emulated network.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// prepare reads the user's addresses or starts the embedded servers, and the emulated network if one is asked for.
func prepare(ctx context.Context, c config) (s *setup, err error) {
	s = new(setup)
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	var dial dialFunc
	if c.rtt > 0 {
		if dial, err = s.link(c.rtt); err != nil {
			return s, err
		}
	}
	if c.mysql != "" {
		v, err := userMySQL(c.mysql, dial)
		if err != nil {
			return s, err
		}
		s.variants = append(s.variants, v)
	}
	if c.mongo != "" {
		v, err := userMongo(c.mongo, c.timeout, dial)
		if err != nil {
			return s, err
		}
		s.variants = append(s.variants, v)
	}
	if len(s.variants) > 0 {
		return s, nil
	}
	sql, err := embedded.StartMySQL(ctx)
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, sql.Close)
	documents, err := embedded.StartMongo(ctx)
	if err != nil {
		return s, err
	}
	s.stops = append(s.stops, documents.Close)
	for _, tls := range []bool{false, true} {
		s.variants = append(s.variants, embeddedMySQL(sql, tls, dial))
	}
	for _, tls := range []bool{false, true} {
		s.variants = append(s.variants, embeddedMongo(documents, tls, c.timeout, dial))
	}
	return s, nil
}

// link makes the emulated network. Its dialer takes real addresses, so that drivers go on seeing their server's own name; the far end of
// the link connects to it.
func (s *setup) link(rtt time.Duration) (dialFunc, error) {
	l, err := wan.New(rtt)
	if err != nil {
		return nil, fmt.Errorf("emulated network: %w", err)
	}
	s.stops = append(s.stops, l.Close)
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		virtual, err := l.Forward(address)
		if err != nil {
			return nil, err
		}
		return l.DialContext(ctx, "tcp", virtual)
	}, nil
}

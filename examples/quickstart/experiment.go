package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/connprof/connprof/profiler"
)

// experiment runs the variants in turn, one iteration of each, so that whatever disturbs the machine disturbs all alike.
//
// Its measures are the published experiment's: wall times of building a client and of that client's first query, connecting included.
type experiment struct {
	variants   []*variant
	iterations int
	timeout    time.Duration                   // of one query, connecting included
	trace      func(ctx context.Context) error // sends spans between warm-up and measuring; nil for none
	begin      func(steps int)                 // told how many steps follow
	step       func()                          // called after each

	traced bool
	broken map[*variant]error
}

// warmUp is how many iterations are thrown away, the first of them a check that the variant works at all.
const warmUp = 5

// run measures. A variant that fails is left out from then on; the others go on. The error joins what failed.
func (e *experiment) run(ctx context.Context) error {
	e.broken = make(map[*variant]error)
	for range min(warmUp, e.iterations) {
		for _, v := range e.running() {
			if _, err := e.cold(ctx, v, new(profiler.Profiler), 0); err != nil {
				e.failed(ctx, v, err)
			}
		}
	}
	if e.trace != nil && len(e.running()) > 0 && ctx.Err() == nil {
		err := e.trace(ctx)
		if e.traced = err == nil; err != nil {
			return errors.Join(e.err(), err)
		}
	}
	e.begin(e.steps())
	for i := range e.iterations {
		if len(e.running()) == 0 {
			break
		}
		for _, v := range e.shuffled() {
			s, err := e.cold(ctx, v, &v.fresh, i)
			if err != nil {
				e.failed(ctx, v, err)
				continue
			}
			v.build, v.first, v.total = append(v.build, s.build), append(v.first, s.first), append(v.total, s.build+s.first)
			e.step()
		}
	}
	e.reuse(ctx, (*variant).openReused, func(v *variant, d time.Duration) { v.reused = append(v.reused, d) })
	e.reuse(ctx, (*variant).openPreparing, func(v *variant, d time.Duration) { v.prepared = append(v.prepared, d) })
	return e.err()
}

// steps is how many queries are going to be measured.
func (e *experiment) steps() int {
	n := 0
	for _, v := range e.running() {
		if n += 2 * e.iterations; v.openPrepared != nil {
			n += e.iterations
		}
	}
	return n
}

type coldSample struct{ build, first time.Duration }

// cold builds a client, runs its first query, and closes it outside the timed part.
func (e *experiment) cold(ctx context.Context, v *variant, p *profiler.Profiler, i int) (coldSample, error) {
	start := time.Now()
	c, err := v.open(p)
	if err != nil {
		return coldSample{}, fmt.Errorf("quickstart: %s: build the client: %s", v.system, oneLine(err.Error()))
	}
	built := time.Now()
	err = e.query(ctx, c, i)
	answered := time.Now()
	v.close(c)
	if err != nil {
		return coldSample{}, v.failure(p, start, err)
	}
	return coldSample{build: built.Sub(start), first: answered.Sub(built)}, nil
}

func (e *experiment) query(ctx context.Context, c client, i int) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return c.query(ctx, i)
}

// close gives the client a moment to say good-bye, also when the run was interrupted.
func (v *variant) close(c client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.close(ctx)
}

// reuse opens one client a variant and times queries on its connection, once that is warm.
func (e *experiment) reuse(ctx context.Context, open func(*variant) (client, *profiler.Profiler, error), keep func(*variant, time.Duration)) {
	clients := make(map[*variant]client)
	defer func() {
		for v, c := range clients {
			v.close(c)
		}
	}()
	profilers := make(map[*variant]*profiler.Profiler)
	for _, v := range e.running() {
		start := time.Now()
		c, p, err := open(v)
		if err == nil && c != nil {
			clients[v], profilers[v] = c, p
			for i := 0; i < 3 && err == nil; i++ {
				err = e.query(ctx, c, i)
			}
		}
		if err != nil {
			e.failed(ctx, v, v.failure(p, start, err))
		}
	}
	for i := range e.iterations {
		if len(clients) == 0 || len(e.running()) == 0 {
			return
		}
		for _, v := range e.shuffled() {
			c := clients[v]
			if c == nil {
				continue
			}
			start := time.Now()
			err := e.query(ctx, c, i)
			if d := time.Since(start); err == nil {
				keep(v, d)
				e.step()
			} else {
				e.failed(ctx, v, v.failure(profilers[v], start, err))
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (v *variant) openReused() (client, *profiler.Profiler, error) {
	c, err := v.open(&v.warm)
	return c, &v.warm, err
}

// openPreparing returns no client for a variant that has no such thing.
func (v *variant) openPreparing() (client, *profiler.Profiler, error) {
	if v.openPrepared == nil {
		return nil, nil, nil
	}
	p := new(profiler.Profiler)
	c, err := v.openPrepared(p)
	return c, p, err
}

// failed leaves the variant out from now on. What failed because the run was interrupted is no failure.
func (e *experiment) failed(ctx context.Context, v *variant, err error) {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	e.broken[v] = err
}

func (e *experiment) err() error {
	var all []error
	for _, v := range e.variants {
		if err := e.broken[v]; err != nil && !errors.Is(err, context.Canceled) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// running are the variants that have not failed.
func (e *experiment) running() []*variant {
	var vs []*variant
	for _, v := range e.variants {
		if e.broken[v] == nil {
			vs = append(vs, v)
		}
	}
	return vs
}

// shuffled is running in a random order, so that no variant always follows the same one and collects its garbage.
func (e *experiment) shuffled() []*variant {
	vs := e.running()
	rand.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
	return vs
}

// measured are those with at least one sample.
func (e *experiment) measured() []*variant {
	var vs []*variant
	for _, v := range e.variants {
		if len(v.total) > 0 {
			vs = append(vs, v)
		}
	}
	return vs
}

// completed is how many fresh clients every measured variant had.
func (e *experiment) completed() int {
	n := e.iterations
	for _, v := range e.measured() {
		n = min(n, len(v.total))
	}
	if len(e.measured()) == 0 {
		return 0
	}
	return n
}

// sent is the collector that got spans, "" if none did.
func (e *experiment) sent(collector string) string {
	if e.traced {
		return collector
	}
	return ""
}

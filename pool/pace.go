package pool

import (
	"time"

	"github.com/connprof/connprof/profiler"
)

// pace splits the time from an operation's first response to its rows closed into what is spent in the driver's calls (Next,
// NextResultSet, Close: the network, and decoding) and what the caller spends between them.
//
// Two clock readings a row, 50 ns, are nothing where rows come from the network one by one, and a tenth of the price where they come out of
// a buffer. So rows are timed one by one, which is exact, as long as they take more than fastRow each. Of rows that are faster than that,
// one in eleven on average is timed, at places that no regular pattern of a driver's reads can miss, and a stretch that turns out slow brings
// exactness back. What was not timed is shared out in the proportion of what was: the sum of both parts is always the exact time.
type pace struct {
	last             profiler.Instant // end of the last timed call, where the caller's time begins
	shown            profiler.Instant // when reports were last told that something happens
	driver, consumer time.Duration    // timed one by one
	quick            [2]time.Duration // driver and consumer of the timed ones among the fast
	block            time.Duration    // time of the rows of this block
	rows             uint8            // how many these are
	skip             uint8            // rows until the next one that is timed
	fast             bool
	ended            bool   // the last call said that there are no more rows: Close follows at once
	dice             uint32 // where the next timed one is
}

const (
	fastRow   = 4 * time.Microsecond
	blockRows = 32
	showEvery = 100 * time.Millisecond
)

// next is asked before a driver's call for a row: the entry of the call, zero if the call is not timed.
func (p *pace) next() profiler.Instant {
	if p.skip > 0 {
		return 0
	}
	return profiler.Now()
}

// came notes the call's end and returns its instant, zero if the clock was not read.
func (p *pace) came(entry profiler.Instant) profiler.Instant {
	if !entry.Known() {
		if p.skip--; p.skip > 0 {
			return 0
		}
		now := profiler.Now() // from here on the next row is timed
		if now.Sub(p.last) > blockRows*fastRow/2 {
			p.fast, p.rows, p.block = false, 0, 0
		}
		p.last = now
		return now
	}
	now := profiler.Now()
	driver, consumer := now.Sub(entry), entry.Sub(p.last)
	p.last = now
	if p.fast {
		p.quick[0] += driver
		p.quick[1] += consumer
		if driver+consumer > 2*fastRow {
			p.fast, p.rows, p.block = false, 0, 0
			return now
		}
		p.roll()
		return now
	}
	p.driver += driver
	p.consumer += consumer
	p.block += driver + consumer
	if p.rows++; p.rows == blockRows {
		if p.fast = p.block < blockRows*fastRow; p.fast {
			p.roll()
		}
		p.rows, p.block = 0, 0
	}
	return now
}

// roll chooses how many rows pass untimed: 6 to 13 (a linear congruential generator; Numerical Recipes, §7.1).
func (p *pace) roll() {
	p.dice = p.dice*1664525 + 1013904223
	p.skip = uint8(6 + p.dice>>29)
}

// end notes that closing the rows took from entry to end, and returns the two parts of the time since first.
func (p *pace) end(first, entry, end profiler.Instant) (driver, consumer time.Duration) {
	all := end.Sub(first)
	driver = p.driver + end.Sub(entry)
	consumer = p.consumer
	if p.skip == 0 { // else the caller's time since the last row is among what was not timed
		consumer += entry.Sub(p.last)
	}
	driver += p.quick[0]
	consumer += p.quick[1]
	if rest := all - driver - consumer; rest > 0 {
		part := rest
		if q := p.quick[0] + p.quick[1]; q > 0 {
			part = time.Duration(float64(rest) * float64(p.quick[0]) / float64(q))
		}
		driver += part
		consumer += rest - part
	}
	return driver, consumer
}

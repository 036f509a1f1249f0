package profiler

import (
	"math"
	"time"
)

// Distribution is a histogram at rest: what Report carries and Report.Sub subtracts. The zero value holds nothing. It must not be changed
// (Merge, UnmarshalJSON) while others use it; as JSON it keeps all that it holds.
type Distribution struct {
	Count    uint64        // of all buckets
	Sum      time.Duration // at most the longest Duration, 292 years, where the true sum is larger
	Min, Max time.Duration // of all that was ever recorded, also after Sub
	buckets  [numBuckets]uint64
}

// Mean is the exact mean, 0 where nothing was recorded.
func (d *Distribution) Mean() time.Duration {
	if d == nil || d.Count == 0 {
		return 0
	}
	return time.Duration(uint64(max(0, d.Sum)) / d.Count)
}

// Quantile is the duration at or below which the fraction q of all lies, within RelativeError; 0 where nothing was recorded. A quantile
// below 1 µs is given as the minimum, one above 256 s as the maximum.
func (d *Distribution) Quantile(q float64) time.Duration {
	if d == nil || d.Count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(d.Count)))
	rank = min(max(rank, 1), d.Count)
	var seen uint64
	for i, n := range d.buckets {
		if seen += n; seen < rank {
			continue
		}
		var v time.Duration
		switch i {
		case 0:
			v = d.Min
		case numBuckets - 1:
			v = d.Max
		default:
			v = middle(i)
		}
		return min(max(v, d.Min), d.Max)
	}
	return d.Max
}

// Merge adds what o holds; Sum stops at the longest Duration. A nil o holds nothing.
func (d *Distribution) Merge(o *Distribution) {
	if o == nil || o.Count == 0 {
		return
	}
	if d.Count == 0 || o.Min < d.Min {
		d.Min = o.Min
	}
	d.Max = max(d.Max, o.Max)
	d.Count += o.Count
	d.Sum = plus(d.Sum, o.Sum)
	for i, n := range o.buckets {
		d.buckets[i] += n
	}
}

// Sub is d without what earlier already held; a nil earlier held nothing. Min and Max stay those of the whole, since the difference can't
// tell them.
func (d *Distribution) Sub(earlier *Distribution) *Distribution {
	if d == nil {
		return new(Distribution)
	}
	r := *d
	if earlier == nil {
		return &r
	}
	r.Count = 0
	r.Sum = minus(r.Sum, earlier.Sum)
	for i, n := range earlier.buckets {
		r.buckets[i] -= min(n, r.buckets[i])
	}
	for _, n := range r.buckets {
		r.Count += n
	}
	return &r
}

// over is how many durations are longer than t, give or take those in t's own bucket, which count as longer.
func (d *Distribution) over(t time.Duration) (n uint64) {
	for _, c := range d.buckets[bucketOf(t):] {
		n += c
	}
	return n
}

package profiler

import (
	"math"
	"sync/atomic"
	"time"
)

// A histogram counts durations in base-2 exponential buckets of scale 4: sixteen to an octave, each 2^(1/16) = 4.4 % wider than the
// one before, over 28 octaves from 2^-20 s (0.95 µs) to 2^8 s (256 s), with one bucket below and one above. A quantile is the
// geometric middle of its bucket, so that it is at most 2.2 % off (see RelativeError). Count, sum, min and max are exact.
//
// The buckets are those of OpenTelemetry's exponential histogram at scale 4 in seconds: bucket i holds (2^(i/16), 2^((i+1)/16)].
// The look-up takes the exponent from the float's bits and the place within the octave from a 32-entry table over the top five bits
// of the mantissa; no two of the sixteen edges fall into one such cell, so that one comparison decides the rest.
//
// Recording is a few atomic additions, never locks and never allocates. A snapshot taken while others record may lack, or hold in
// part, what is just being recorded.
type histogram struct {
	sum      atomic.Int64 // nanoseconds
	min, max atomic.Int64 // nanoseconds plus one: 0 means none yet
	buckets  [numBuckets]atomic.Uint64
}

const (
	subBuckets = 16
	minExp     = -20 // 2^-20 s
	maxExp     = 8   // 2^8 s
	// numBuckets: the regular ones, one below, one above.
	numBuckets = (maxExp-minExp)*subBuckets + 2
)

// RelativeError is the largest relative error of a quantile between 1 µs and 256 s: half a bucket, 2^(1/32) - 1.
const RelativeError = 0.0219

var (
	cellEdges [32]uint64 // the mantissa of the edge to compare with in a cell
	cellIndex [32]uint8  // the sub-bucket below that edge
)

func init() {
	var edges [subBuckets + 1]uint64 // mantissa bits of 2^(k/16); the last one lies past the octave
	for k := range edges {
		if k == subBuckets {
			edges[k] = 1 << 52
			break
		}
		edges[k] = math.Float64bits(math.Exp2(float64(k)/subBuckets)) & (1<<52 - 1)
	}
	for cell := range cellEdges {
		lo := uint64(cell) << 47
		k := 0 // the last edge at or below lo
		for k+1 < subBuckets && edges[k+1] <= lo {
			k++
		}
		// A mantissa in this cell is in sub-bucket k, or in k+1 if it lies above edge k+1. Exactly on an edge belongs below.
		cellIndex[cell], cellEdges[cell] = uint8(k), edges[k+1]
	}
}

// bucketOf is the index of the bucket that holds d.
func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	bits := math.Float64bits(float64(d) / 1e9)
	mant := bits & (1<<52 - 1)
	cell := mant >> 47
	sub := int(cellIndex[cell])
	if mant > cellEdges[cell] {
		sub++
	}
	if mant == 0 { // a power of two is the upper edge of the bucket below
		sub = -1
	}
	exp := int(bits>>52) - 1023
	i := (exp-minExp)*subBuckets + sub + 1
	return min(max(i, 0), numBuckets-1)
}

// upperEdge is the upper edge of bucket i in seconds, +Inf for the last.
func upperEdge(i int) float64 {
	if i >= numBuckets-1 {
		return math.Inf(1)
	}
	return math.Exp2(float64(i)/subBuckets + minExp)
}

func (h *histogram) record(d time.Duration) {
	if d < 0 {
		d = 0
	}
	h.buckets[bucketOf(d)].Add(1)
	h.sum.Add(int64(d))
	v := int64(d) + 1
	for m := h.max.Load(); v > m; m = h.max.Load() {
		if h.max.CompareAndSwap(m, v) {
			break
		}
	}
	for m := h.min.Load(); m == 0 || v < m; m = h.min.Load() {
		if h.min.CompareAndSwap(m, v) {
			break
		}
	}
}

// Distribution is a histogram at rest: what Report carries and Report.Sub subtracts.
type Distribution struct {
	Count    uint64
	Sum      time.Duration
	Min, Max time.Duration // of all that was ever recorded, also after Sub
	buckets  [numBuckets]uint64
}

func (h *histogram) addTo(d *Distribution) {
	for i := range h.buckets {
		n := h.buckets[i].Load()
		d.buckets[i] += n
		d.Count += n
	}
	d.Sum += time.Duration(h.sum.Load())
	if m := h.min.Load(); m != 0 && (d.Min == 0 || time.Duration(m-1) < d.Min) {
		d.Min = time.Duration(m - 1)
	}
	if m := h.max.Load(); m != 0 {
		d.Max = max(d.Max, time.Duration(m-1))
	}
}

// Mean is the exact mean, 0 where nothing was recorded.
func (d *Distribution) Mean() time.Duration {
	if d == nil || d.Count == 0 {
		return 0
	}
	return d.Sum / time.Duration(d.Count)
}

// Quantile is the duration at or below which the fraction q of all lies, within RelativeError; 0 where nothing was recorded.
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
			v = time.Duration(math.Exp2((float64(i)-0.5)/subBuckets+minExp) * 1e9)
		}
		return min(max(v, d.Min), d.Max)
	}
	return d.Max
}

// Merge adds what o holds.
func (d *Distribution) Merge(o *Distribution) {
	if o == nil || o.Count == 0 {
		return
	}
	if d.Count == 0 || o.Min < d.Min {
		d.Min = o.Min
	}
	d.Max = max(d.Max, o.Max)
	d.Count += o.Count
	d.Sum += o.Sum
	for i, n := range o.buckets {
		d.buckets[i] += n
	}
}

// Sub is d without what earlier already held. Min and Max stay those of the whole, since the difference can't tell them.
func (d *Distribution) Sub(earlier *Distribution) *Distribution {
	r := *d
	if earlier == nil {
		return &r
	}
	r.Count = 0
	r.Sum -= earlier.Sum
	for i, n := range earlier.buckets {
		r.buckets[i] -= min(n, r.buckets[i])
	}
	for _, n := range r.buckets {
		r.Count += n
	}
	return &r
}

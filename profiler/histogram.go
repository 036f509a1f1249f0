package profiler

import (
	"math"
	"sync/atomic"
	"time"
)

// A histogram counts durations in base-2 exponential buckets of scale 4: sixteen to an octave, each 2^(1/16) = 4.4 % wider than the
// one before, over 28 octaves from 2^-20 s (0.95 µs) to 2^8 s (256 s), with one bucket below and one above. A quantile is the
// geometric middle of its bucket, so that it is at most 2.2 % off (see RelativeError). Count, sum, min and max are exact; a negative
// duration counts as 0, and the sum stops at the largest Duration, 292 years.
//
// The buckets are those of OpenTelemetry's exponential histogram at scale 4 in seconds: bucket i holds (2^(i/16), 2^((i+1)/16)].
// The look-up takes the exponent from the float's bits and the place within the octave from a 32-entry table over the top five bits
// of the mantissa; no two of the sixteen edges fall into one such cell, so that one comparison decides the rest.
//
// Recording is a few atomic additions, never locks and never allocates. A snapshot taken while others record may hold the sum of what
// it does not count yet; minimum and maximum always cover what it counts.
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

// RelativeError is the largest relative error of a quantile between 1 µs and 256 s: half a bucket, 2^(1/32) - 1 = 2.19 %, and the
// rounding to whole nanoseconds, which matters below 2 µs.
const RelativeError = 0.0222

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

// middle is the geometric middle of bucket i, one of the regular ones.
func middle(i int) time.Duration {
	return time.Duration(math.Round(math.Exp2((float64(i)-0.5)/subBuckets+minExp) * 1e9))
}

func (h *histogram) record(d time.Duration) {
	d = min(max(d, 0), math.MaxInt64-1)
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
	if h.sum.Add(int64(d)) < 0 {
		h.sum.Store(math.MaxInt64)
	}
	h.buckets[bucketOf(d)].Add(1) // last: what is counted is in the rest already
}

// addTo adds what h holds to d.
func (h *histogram) addTo(d *Distribution) {
	var o Distribution
	for i := range h.buckets {
		n := h.buckets[i].Load()
		o.buckets[i] = n
		o.Count += n
	}
	o.Sum = max(0, time.Duration(h.sum.Load())) // negative for a moment where it overflows
	o.Min, o.Max = time.Duration(h.min.Load()-1), time.Duration(h.max.Load()-1)
	d.Merge(&o)
}

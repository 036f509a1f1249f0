package otelmetric

import (
	"math"
	"slices"

	"github.com/connprof/connprof/profiler"
)

// A Distribution's buckets are OpenTelemetry's at scale 4, so that an exponential histogram is a copy of them. A lower scale merges each
// 2^k neighbours into one, whose index is theirs shifted right by k: no value changes its side of an edge that remains.
type exponential struct {
	scale, offset int
	zero          uint64
	counts        []uint64
}

// exponentialBuckets gives d at the highest scale, 4 at most, at which maxSize buckets hold it. It takes 2 where maxSize is less: values on
// both sides of 1 s never share a bucket.
func exponentialBuckets(d *profiler.Distribution, maxSize int) exponential {
	zero, first, counts := d.Buckets()
	last := first + len(counts) - 1
	shift := 0
	for last>>shift-first>>shift >= max(maxSize, 2) {
		shift++
	}
	b := exponential{scale: profiler.BucketScale - shift, offset: first >> shift, zero: zero}
	if len(counts) == 0 {
		return b
	}
	b.counts = make([]uint64, last>>shift-b.offset+1)
	for i, n := range counts {
		b.counts[(first+i)>>shift-b.offset] += n
	}
	return b
}

// explicitBuckets counts d by upper bounds, one more count than bounds. What lies in a bucket of d that a bound cuts in two is counted on
// the side of the bucket's geometric middle, so that a duration within profiler.RelativeError of a bound may be counted on its other side.
// A bucket always goes to the same side, so that counts never fall from one collection to the next.
func explicitBuckets(d *profiler.Distribution, bounds []float64) []uint64 {
	out := make([]uint64, len(bounds)+1)
	zero, offset, counts := d.Buckets()
	if zero > 0 {
		i, _ := slices.BinarySearch(bounds, 0)
		out[i] += zero
	}
	for k, n := range counts {
		if n > 0 {
			i, _ := slices.BinarySearch(bounds, middles[offset+k-firstIndex])
			out[i] += n
		}
	}
	return out
}

// The indices of a Distribution's buckets.
const (
	firstIndex = -20 << profiler.BucketScale
	lastIndex  = 8 << profiler.BucketScale
)

// middles are the geometric middles of the buckets in seconds, by index from firstIndex.
var middles = func() (m [lastIndex - firstIndex + 1]float64) {
	for i := range m {
		m[i] = math.Exp2((float64(firstIndex+i) + 0.5) / (1 << profiler.BucketScale))
	}
	return m
}()

package profiler

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// A histogram counts durations in base-2 exponential buckets of scale 4: sixteen to an octave, each 2^(1/16) = 4.4 % wider than the
// one before, over 28 octaves from 2^-20 s (0.95 µs) to 2^8 s (256 s), with one bucket below and one above. A quantile is the
// geometric middle of its bucket, so that it is at most 2.2 % off (see RelativeError). Count, sum, min and max are exact; a negative
// duration counts as 0, and the sum stops at the largest Duration, 292 years.
//
// The buckets are those of OpenTelemetry's exponential histogram at scale 4 in seconds: bucket i holds (2^(i/16), 2^((i+1)/16)].
// The look-up takes the six highest bits of the nanoseconds to an entry of a table. No two edges fall into one such cell, so that one
// comparison decides the rest.
//
// Recording is one atomic addition where minimum and maximum stay as they are; it never locks and never allocates. To that end a bucket
// is one word: in its upper 20 bits the count, in its lower 44 the sum of what the durations exceed the bucket's least one by. Before the
// count, or for wide buckets the sum, can reach its end, the word is moved to emptied. A snapshot taken while others record may lack
// what is on that way; minimum and maximum always cover what it counts.
type histogram struct {
	min, max atomic.Int64 // nanoseconds plus one: 0 means none yet
	over     atomic.Int64 // nanoseconds of what lies above the last regular bucket
	buckets  [numBuckets]atomic.Uint64

	mu      sync.Mutex       // orders those who empty and those who take a snapshot
	emptied map[int]*emptied // mu: by bucket
}

// emptied is what was in a bucket before it was emptied.
type emptied struct {
	count uint64
	sum   time.Duration // of what exceeds the least
}

const (
	countShift = 44
	sumMask    = 1<<countShift - 1
)

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

// bucket is what recording needs to know of one.
type bucket struct {
	least  time.Duration // at or below its shortest duration, by less than 1 ns
	fullAt uint64        // the count at which it is emptied
}

// cell is what the durations have in common that share their highest six bits.
type cell struct {
	edge  time.Duration // the longest of the bucket below; whatever is longer is in the next
	below int           // that bucket
}

const (
	cellBits = 5  // after the first bit: no two edges of a scale of 16 fall into one cell
	minBits  = 9  // 2^9 ns is below the first edge
	maxBits  = 38 // 2^38 ns is above the last one
	cells    = (maxBits - minBits) << cellBits
)

var (
	bucketTable [numBuckets]bucket
	cellTable   [cells]cell
)

// edge is the longest duration of bucket i, which is not the last.
func edge(i int) time.Duration {
	return time.Duration(math.Exp2(float64(i)/subBuckets+minExp) * 1e9)
}

func init() {
	for i := range bucketTable {
		b := &bucketTable[i]
		if i > 0 {
			b.least = edge(i - 1)
		}
		// Half of what the word holds, so that those who add while it is emptied find room.
		b.fullAt = uint64(min(1<<19, sumMask/2/float64(edge(i)-b.least+1)))
	}
	below := 0
	for c := range cellTable {
		first := time.Duration(1<<cellBits|c&(1<<cellBits-1)) << (minBits - cellBits + c>>cellBits)
		for below < numBuckets-1 && edge(below) < first {
			below++
		}
		cellTable[c] = cell{edge: math.MaxInt64, below: below}
		if below < numBuckets-1 {
			cellTable[c].edge = edge(below)
		}
	}
}

// bucketOf is the index of the bucket that holds d.
func bucketOf(d time.Duration) int {
	if d < 1<<minBits {
		return 0
	}
	e := bits.Len64(uint64(d)) - 1
	if e >= maxBits {
		return numBuckets - 1
	}
	c := &cellTable[(e-minBits)<<cellBits|int(d>>(e-cellBits))&(1<<cellBits-1)]
	if d > c.edge {
		return c.below + 1
	}
	return c.below
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
	i := bucketOf(d)
	if i == numBuckets-1 {
		if h.over.Add(int64(d)) < 0 {
			h.over.Store(math.MaxInt64)
		}
		d = bucketTable[i].least
	}
	b := &bucketTable[i]
	if w := h.buckets[i].Add(1<<countShift | uint64(d-b.least)); w>>countShift >= b.fullAt {
		h.empty(i)
	}
}

// empty moves what is in bucket i to emptied.
func (h *histogram) empty(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.buckets[i].Swap(0)
	if h.emptied == nil {
		h.emptied = make(map[int]*emptied)
	}
	e := h.emptied[i]
	if e == nil {
		e = new(emptied)
		h.emptied[i] = e
	}
	e.count += w >> countShift
	e.sum += time.Duration(w & sumMask)
}

// addTo adds what h holds to d.
func (h *histogram) addTo(d *Distribution) {
	var o Distribution
	h.mu.Lock()
	for i := range h.buckets {
		w := h.buckets[i].Load()
		n, sum := w>>countShift, time.Duration(w&sumMask)
		if e := h.emptied[i]; e != nil {
			n, sum = n+e.count, sum+e.sum
		}
		o.buckets[i] = n
		o.Count += n
		if i < numBuckets-1 {
			o.Sum += sum + time.Duration(n)*bucketTable[i].least
		}
	}
	h.mu.Unlock()
	if o.Sum += time.Duration(h.over.Load()); o.Sum < 0 {
		o.Sum = math.MaxInt64
	}
	o.Min, o.Max = time.Duration(h.min.Load()-1), time.Duration(h.max.Load()-1)
	d.Merge(&o)
}

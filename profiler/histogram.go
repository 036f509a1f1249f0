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
	max     atomic.Int64 // nanoseconds plus one: 0 means none yet
	min     atomic.Int64 // by how many nanoseconds it is less than the longest Duration: 0 means none yet
	over    atomic.Int64 // nanoseconds of what lies above the last regular bucket
	buckets [numBuckets]atomic.Uint64

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
	// full are the highest bits of count and sum. At one of them the bucket is emptied, so that those who add meanwhile find as much room again.
	full = 1<<63 | 1<<(countShift-1)
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

// cell is what the durations have in common that share their highest six bits.
type cell struct {
	edge  time.Duration // the longest of the bucket below; whatever is longer is in the next, and exceeds its least by what it exceeds this
	least time.Duration // of the bucket below
	below int           // that bucket
}

const (
	cellBits = 5  // after the first bit: no two edges of a scale of 16 fall into one cell
	minBits  = 9  // 2^9 ns is below the first edge
	maxBits  = 38 // 2^38 ns is above the last one
	cells    = (maxBits - minBits) << cellBits
)

var (
	// least is at or below the shortest duration of each bucket, by less than 1 ns.
	least     [numBuckets]time.Duration
	cellTable [cells]cell
)

// edge is the longest duration of bucket i, which is not the last.
func edge(i int) time.Duration {
	return time.Duration(math.Exp2(float64(i)/subBuckets+minExp) * 1e9)
}

func init() {
	for i := 1; i < numBuckets; i++ {
		least[i] = edge(i - 1)
	}
	below := 0
	for c := range cellTable {
		first := time.Duration(1<<cellBits|c&(1<<cellBits-1)) << (minBits - cellBits + c>>cellBits)
		for below < numBuckets-1 && edge(below) < first {
			below++
		}
		cellTable[c] = cell{edge: math.MaxInt64, least: least[below], below: below}
		if below < numBuckets-1 {
			cellTable[c].edge = edge(below)
		}
	}
}

// place is the bucket that holds d, and by what d, which is not negative, exceeds the least of that bucket.
func place(d time.Duration) (bucket int, excess time.Duration) {
	e := bits.Len64(uint64(max(d, 1<<minBits))) - 1
	if e >= maxBits {
		return numBuckets - 1, 0
	}
	// The shift leaves the first bit in front of the cell's own, which counts the cells of the power of two below as well.
	c := &cellTable[e<<cellBits+int(max(d, 1<<minBits)>>((e-cellBits)&63))-(minBits+1)<<cellBits]
	if d > c.edge {
		return c.below + 1, d - c.edge
	}
	return c.below, d - c.least
}

// bucketOf is the index of the bucket that holds d.
func bucketOf(d time.Duration) int {
	i, _ := place(d)
	return i
}

// middle is the geometric middle of bucket i, one of the regular ones.
func middle(i int) time.Duration {
	return time.Duration(math.Round(math.Exp2((float64(i)-0.5)/subBuckets+minExp) * 1e9))
}

// lazyHistogram makes its histogram at the first duration. The zero value is ready.
type lazyHistogram struct{ atomic.Pointer[histogram] }

func (l *lazyHistogram) record(d time.Duration) {
	h := l.Load()
	if h == nil {
		h = l.make()
	}
	d = max(d, 0)
	if int64(d) >= h.max.Load() || math.MaxInt64-int64(d) > h.min.Load() {
		h.extreme(d)
	}
	i, excess := place(d)
	if i == numBuckets-1 {
		h.tooLong(d)
	}
	if w := h.buckets[i].Add(1<<countShift | uint64(excess)); w&full != 0 {
		h.empty(i)
	}
}

func (l *lazyHistogram) make() *histogram {
	l.CompareAndSwap(nil, new(histogram))
	return l.Load()
}

// addTo adds what l holds to d.
func (l *lazyHistogram) addTo(d *Distribution) {
	if h := l.Load(); h != nil {
		h.addTo(d)
	}
}

// extreme lets minimum and maximum cover d.
func (h *histogram) extreme(d time.Duration) {
	raise(&h.max, min(int64(d), math.MaxInt64-1)+1)
	raise(&h.min, math.MaxInt64-int64(d))
}

// raise makes v at least to.
func raise(v *atomic.Int64, to int64) {
	for m := v.Load(); to > m; m = v.Load() {
		if v.CompareAndSwap(m, to) {
			break
		}
	}
}

// tooLong adds a d that is above the last regular bucket to the sum.
func (h *histogram) tooLong(d time.Duration) {
	if h.over.Add(int64(d)) < 0 {
		h.over.Store(math.MaxInt64)
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
	e.sum = plus(e.sum, time.Duration(w&sumMask))
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
			o.Sum = plus(o.Sum, plus(sum, timesOf(n, least[i])))
		}
	}
	h.mu.Unlock()
	o.Sum = plus(o.Sum, time.Duration(max(0, h.over.Load())))
	o.Min, o.Max = time.Duration(math.MaxInt64-h.min.Load()), time.Duration(h.max.Load()-1)
	d.Merge(&o)
}

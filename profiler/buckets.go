package profiler

// BucketScale is the scale of a Distribution's buckets, as OpenTelemetry counts scales: each is 2^(2^-BucketScale) = 2^(1/16) times as wide
// as the one before.
const BucketScale = 4

// BucketZero is the upper bound in seconds of what Buckets counts as zero: 2^-20 s, 0.95 µs.
const BucketZero = 1.0 / (1 << 20)

// Buckets tells how the durations are spread: zero counts those of at most BucketZero, counts[i] those in the bucket of index offset+i,
// which holds (2^(k/16), 2^((k+1)/16)] seconds for index k, as in OpenTelemetry's exponential histogram. zero and counts add up to Count.
// counts begins and ends with a bucket that is not empty; it is nil where there is none. What took more than 256 s is counted in the first
// bucket above that, index 128. counts is d's own memory: it must not be written to, and d must not be merged into while it is in use.
func (d *Distribution) Buckets() (zero uint64, offset int, counts []uint64) {
	if d == nil || d.Count == 0 {
		return 0, 0, nil
	}
	first, last := 1, numBuckets-1
	for first <= last && d.buckets[first] == 0 {
		first++
	}
	if first > last {
		return d.buckets[0], 0, nil
	}
	for d.buckets[last] == 0 {
		last--
	}
	return d.buckets[0], minExp*subBuckets + first - 1, d.buckets[first : last+1 : last+1]
}

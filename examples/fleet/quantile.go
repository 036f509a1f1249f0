package main

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
)

// rank is the place of quantile q among n values in ascending order, from 1: the least one that is not below q of them (nearest rank).
func rank(q float64, n int) int { return max(1, int(math.Ceil(q*float64(n)))) }

// exactQuantile is one of ds, which are sorted.
func exactQuantile(q float64, ds []time.Duration) time.Duration { return ds[rank(q, len(ds))-1] }

// bucketOf returns the bucket that holds quantile q of h by nearest rank. It is the bucket of the exact quantile if h counted right: the
// order of values is that of their buckets. So the geometric middle of a bucket that is f times as wide at its upper end is at most √f - 1
// off, 2.2 % at scale 4, whatever the values are.
func bucketOf(q float64, h *histogram.FloatHistogram) (b histogram.Bucket[float64], ok bool) {
	left := float64(rank(q, int(h.Count)))
	for it := h.AllBucketIterator(); it.Next(); {
		b = it.At()
		if left -= b.Count; left <= 0 {
			return b, true
		}
	}
	return b, false
}

func middle(b histogram.Bucket[float64]) float64 { return math.Sqrt(b.Lower * b.Upper) }

// holding counts those of ds, which are sorted, that lie in b.
func holding(b histogram.Bucket[float64], ds []time.Duration) int {
	upTo := func(bound float64) int {
		i, _ := slices.BinarySearchFunc(ds, bound, func(d time.Duration, bound float64) int {
			if d.Seconds() <= bound {
				return -1
			}
			return 1
		})
		return i
	}
	return upTo(b.Upper) - upTo(b.Lower)
}

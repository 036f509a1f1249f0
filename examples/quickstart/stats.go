package main

import (
	"math"
	"slices"
	"time"
)

// summary describes samples. Its zero value is that of none.
type summary struct {
	n              int
	mean, p50, p95 time.Duration
	// margin is two standard errors of the mean: where the mean of another run of this size would be, nineteen times out of twenty.
	margin time.Duration
}

// summarise is exact: percentiles are samples, by the nearest rank.
func summarise(samples []time.Duration) summary {
	if len(samples) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	n := len(sorted)
	s := summary{n: n, mean: sum / time.Duration(n), p50: rank(sorted, 0.50), p95: rank(sorted, 0.95)}
	if n > 1 {
		var squares float64
		for _, d := range sorted {
			squares += math.Pow(float64(d-s.mean), 2)
		}
		s.margin = time.Duration(2 * math.Sqrt(squares/float64(n-1)/float64(n)))
	}
	return s
}

// rank is the smallest sample that the fraction q of all does not exceed.
func rank(sorted []time.Duration, q float64) time.Duration {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// differ reports whether the means of a and b are further apart than chance explains.
func differ(a, b summary) bool {
	return math.Abs(float64(a.mean-b.mean)) > math.Hypot(float64(a.margin), float64(b.margin))
}

package profiler

import (
	"math"
	"math/bits"
	"time"
)

// plus is a and b together, or the largest number that there is. Neither is negative.
func plus[T ~int64](a, b T) T {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// plusLimit is plus for numbers of connections.
func plusLimit(a, b int) int { return int(min(plus(int64(a), int64(b)), math.MaxInt)) }

// minus is what a has more than b: nothing where it has less, as when reports are subtracted in the wrong order. Neither is negative.
func minus[T ~int64](a, b T) T {
	return max(a, b) - b
}

// timesOf is n times d, or the longest Duration. d is not negative.
func timesOf(n uint64, d time.Duration) time.Duration {
	if high, low := bits.Mul64(n, uint64(d)); high == 0 && low <= math.MaxInt64 {
		return time.Duration(low)
	}
	return math.MaxInt64
}

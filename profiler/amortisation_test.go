package profiler

import (
	"math/rand/v2"
	"testing"
	"time"
)

// By hand: create 6 ms of which TLS 3 ms, first 1 ms, reused 0.5 ms.
// cost(1) = 7/1; cost(10) = (7 + 9·0.5)/10 = 1.15; cost(100) = (7 + 99·0.5)/100 = 0.565; cost(1000) = (7 + 999·0.5)/1000 = 0.5065.
// TLS share = 3/7, 3/11.5, 3/56.5, 3/506.5. Below 5 %: 7 + (n-1)·0.5 > 60, n-1 > 106: 108. Below 1 %: 7 + (n-1)·0.5 > 300, n-1 > 586: 588.
func TestAmortisationByHand(t *testing.T) {
	a := Amortise(6*ms, 3*ms, ms, ms/2)
	want := []AmortisedCost{
		{1, 7 * ms, 3.0 / 7}, {10, 1150 * time.Microsecond, 3.0 / 11.5}, {100, 565 * time.Microsecond, 3.0 / 56.5},
		{1000, 506500 * time.Nanosecond, 3.0 / 506.5},
	}
	for i, w := range want {
		got := a.Rows[i]
		if got.N != w.N || got.Cost != w.Cost || got.TLSShare-w.TLSShare > 1e-12 || w.TLSShare-got.TLSShare > 1e-12 {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
	if a.Below5 != 108 || a.Below1 != 588 {
		t.Errorf("below 5 %% from %d, 1 %% from %d; want 108, 588", a.Below5, a.Below1)
	}
	if a.Cost(0) != a.Cost(1) || a.TLSShare(-5) != a.TLSShare(1) {
		t.Error("less than one query is not one")
	}
}

func TestBelowIsTheSmallestNumberOfQueries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 9))
	brute := func(a *Amortisation, share float64) int64 {
		if a.TLS <= 0 {
			return 0
		}
		for n := int64(1); n < 400_000; n++ {
			if a.TLSShare(n) < share {
				return n
			}
		}
		return 0
	}
	check := func(create, tls, first, reused time.Duration) {
		t.Helper()
		a := Amortise(create, tls, first, reused)
		if w5, w1 := brute(a, 0.05), brute(a, 0.01); a.Below5 != w5 || a.Below1 != w1 {
			t.Errorf("%v of %v, first %v, reused %v: %d and %d, want %d and %d", tls, create, first, reused, a.Below5, a.Below1, w5, w1)
		}
	}
	for range 300 {
		tls := time.Duration(rnd.IntN(5_000_000))
		check(tls+time.Duration(rnd.IntN(20_000_000)), tls, time.Duration(rnd.IntN(3_000_000)), time.Duration(2000+rnd.IntN(2_000_000)))
	}
	check(6*ms, 0, ms, ms)        // no TLS
	check(1000*ms, ms, ms, ms)    // below from the first on
	check(1000*ms, ms, ms, 0)     // even though a reused query costs nothing
	check(6*ms, 3*ms, ms, 0)      // never
	check(0, 0, 0, 0)             // nothing at all
	check(20*ms, ms, 0, ms)       // exactly 5 %
	check(95*ms, 5*ms, 5*ms, ms)  // exactly 5 % at the first
	check(100, 100, 0, 1)         // nanoseconds
	check(1<<40, 1<<40, 1, 1<<30) // minutes
}

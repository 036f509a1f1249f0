package main

import (
	"testing"
	"time"
)

func TestSummariseIsExact(t *testing.T) {
	var samples []time.Duration
	for i := 100; i >= 1; i-- {
		samples = append(samples, time.Duration(i)*time.Millisecond)
	}
	s := summarise(samples)
	if s.n != 100 || s.mean != 50500*time.Microsecond || s.p50 != 50*time.Millisecond || s.p95 != 95*time.Millisecond {
		t.Errorf("summarise(100 ms … 1 ms) = %+v", s)
	}
	// The standard deviation of 1…100 is 29.01, so two standard errors are 5.80.
	if s.margin < 5800*time.Microsecond || s.margin > 5804*time.Microsecond {
		t.Errorf("margin = %v, want 5.80 ms", s.margin)
	}
	if samples[0] != 100*time.Millisecond {
		t.Error("the samples were put into another order")
	}
}

func TestSummariseOfFewSamples(t *testing.T) {
	if s := summarise(nil); s != (summary{}) {
		t.Errorf("summarise(nil) = %+v", s)
	}
	want := summary{n: 1, mean: 7, p50: 7, p95: 7}
	if s := summarise([]time.Duration{7}); s != want {
		t.Errorf("summarise(7) = %+v, want %+v", s, want)
	}
}

func TestDifferNeedsMoreThanNoise(t *testing.T) {
	a := summary{n: 100, mean: 1000, margin: 30}
	for _, test := range []struct {
		name string
		b    summary
		want bool
	}{
		{"means within both margins are alike", summary{n: 100, mean: 1040, margin: 40}, false},
		{"means further apart are not", summary{n: 100, mean: 1060, margin: 40}, true},
		{"also downwards", summary{n: 100, mean: 940, margin: 40}, true},
	} {
		if got := differ(a, test.b); got != test.want {
			t.Errorf("%s: differ = %v", test.name, got)
		}
	}
}

package profiler

import (
	"testing"
	"time"
)

func TestBucketsHoldAllThatIsCounted(t *testing.T) {
	dist := func(ds ...time.Duration) *Distribution {
		var h lazyHistogram
		for _, d := range ds {
			h.record(d)
		}
		d := new(Distribution)
		h.addTo(d)
		return d
	}
	for _, tt := range []struct {
		name         string
		d            *Distribution
		zero         uint64
		offset, size int
	}{
		{"nothing", nil, 0, 0, 0},
		{"nothing recorded", new(Distribution), 0, 0, 0},
		{"only what is too short to tell", dist(0, 1, 953), 3, 0, 0},
		{"one second is the upper edge of bucket -1", dist(time.Second), 0, -1, 1},
		{"two values an octave apart", dist(time.Second, 2*time.Second), 0, -1, 17},
		{"the first bucket", dist(954), 0, -320, 1},
		{"above the last edge", dist(256*time.Second, time.Hour), 0, 127, 2},
		{"all of it", dist(0, 954, time.Hour), 1, -320, 449},
	} {
		zero, offset, counts := tt.d.Buckets()
		if zero != tt.zero || offset != tt.offset || len(counts) != tt.size {
			t.Errorf("%s: zero %d offset %d size %d, want %d %d %d", tt.name, zero, offset, len(counts), tt.zero, tt.offset, tt.size)
		}
		sum := zero
		for _, n := range counts {
			sum += n
		}
		if tt.d != nil && sum != tt.d.Count {
			t.Errorf("%s: buckets hold %d, count is %d", tt.name, sum, tt.d.Count)
		}
	}
}

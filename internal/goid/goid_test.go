package goid

import (
	"bytes"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
)

func TestGetIsStableAndDistinct(t *testing.T) {
	const n = 200
	var mu sync.Mutex
	seen := map[uint64]bool{Get(): true}
	var wg sync.WaitGroup
	hold := make(chan struct{})
	for range n {
		wg.Go(func() {
			id := Get()
			mu.Lock()
			if seen[id] || id == 0 {
				t.Errorf("goroutine number %d twice, or 0", id)
			}
			seen[id] = true
			last := len(seen) == n+1
			mu.Unlock()
			if last {
				close(hold)
			}
			<-hold
			if again := Get(); again != id {
				t.Errorf("one goroutine was %d, then %d", id, again)
			}
			if deep := deeper(40); deep != id {
				t.Errorf("one goroutine was %d, and %d under 40 calls", id, deep)
			}
		})
	}
	wg.Wait()
}

//go:noinline
func deeper(n int) uint64 {
	if n == 0 {
		return Get()
	}
	return deeper(n - 1)
}

func TestGetIsTheNumberOfATraceback(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		t.Fatal(err)
	}
	if want := prefix + strconv.FormatUint(Get(), 10) + " ["; !bytes.HasPrefix(b.Bytes(), []byte(want)) {
		t.Errorf("the traceback begins with %q, not %q", b.Bytes()[:30], want)
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]uint64{
		"goroutine 1 [running]:\n":                   1,
		"goroutine 18446744073709551 [running":       18446744073709551,
		"goroutine 99999999999999999999999 [running": 0,
		"goroutine 12":           0,
		"goroutine  [running]":   0,
		"goroutine x1 [running]": 0,
		"goroutine ":             0,
		"thread 12 [running]":    0,
		"":                       0,
	} {
		if got := parse([]byte(line)); got != want {
			t.Errorf("parse(%q) = %d, want %d", line, got, want)
		}
	}
}

func TestBoundsOfGet(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Get() }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Get()
	}
}

func BenchmarkGetUnder30Calls(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		deeper(30)
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

// A sample is one batch of calls, an average over it.
type sample struct {
	cpu, wall     float64 // nanoseconds
	bytes, allocs float64
}

// cpuTime is what the process has used, of user and system time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// many runs f n times, spread over goroutines.
func many(goroutines, n int, f func() error) error {
	loop := func(n int) error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	if goroutines == 1 {
		return loop(n)
	}
	errs := make(chan error, goroutines)
	for range goroutines {
		go func() { errs <- loop(n / goroutines) }()
	}
	var all error
	for range goroutines {
		all = errors.Join(all, <-errs)
	}
	return all
}

// batch runs f n times.
func batch(goroutines, n int, f func() error) (sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, wall := cpuTime(), time.Now()
	if err := many(goroutines, n, f); err != nil {
		return sample{}, err
	}
	w, c := time.Since(wall), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	per := func(x uint64) float64 { return float64(x) / float64(n) }
	return sample{
		cpu: float64(c) / float64(n), wall: float64(w) / float64(n),
		bytes: per(after.TotalAlloc - before.TotalAlloc), allocs: per(after.Mallocs - before.Mallocs),
	}, nil
}

// clockRead is the price of one reading of the monotonic clock.
func clockRead() float64 {
	base := time.Now()
	var least float64
	for range 20 {
		start := time.Now()
		for range 20_000 {
			_ = time.Since(base)
		}
		d := float64(time.Since(start)) / 20_000
		if least == 0 || d < least {
			least = d
		}
	}
	return least
}

// overhead prints the tables.
func overhead(w io.Writer, rounds, n int) error {
	fmt.Fprintf(w, "%d rounds of %d calls each, interleaved; %d CPUs. ns a call: median CPU and least wall time, and what each is over that "+
		"of the\nbare first line; the latter also in readings of the monotonic clock, which are half of what a profiler costs.\n",
		rounds, n, runtime.NumCPU())
	for _, c := range calls {
		t := table{title: c.name, goroutines: c.goroutines}
		for _, s := range subjects {
			ctx, db := s.ctx(), s.open()
			defer db.Close()
			if err := c.prepare(ctx, db); err != nil {
				return err
			}
			t.add(s.name, func() error { return c.run(ctx, db) })
		}
		if err := t.measure(w, rounds, n); err != nil {
			return err
		}
	}
	for _, c := range pgxCalls {
		t := table{title: c.name, goroutines: 1}
		for _, s := range pgxSubjects {
			run, end, err := c.open(s)
			if err != nil {
				return err
			}
			defer end()
			t.add(s.name, run)
		}
		if err := t.measure(w, rounds, n); err != nil {
			return err
		}
	}
	for _, title := range mongoCalls {
		if err := mongoTable(title).measure(w, rounds, n); err != nil {
			return err
		}
	}
	return nil
}

// A table compares ways to do the same thing, the bare one first.
type table struct {
	title      string
	goroutines int
	names      []string
	runs       []func() error
}

func (t *table) add(name string, run func() error) {
	t.names, t.runs = append(t.names, name), append(t.runs, run)
}

// measure runs rounds batches of n calls of each, interleaved, so that what disturbs the machine disturbs all, and prints what they cost.
func (t *table) measure(w io.Writer, rounds, n int) error {
	samples := make([][]sample, len(t.runs))
	var clocks []float64
	for round := range rounds + 1 {
		clock := clockRead()
		for j := range t.runs {
			i := (j + round) % len(t.runs)
			s, err := batch(t.goroutines, n, t.runs[i])
			if err != nil {
				return fmt.Errorf("%s: %w", t.names[i], err)
			}
			if round > 0 { // the first one warms up
				samples[i] = append(samples[i], s)
			}
		}
		clocks = append(clocks, clock)
	}
	t.print(w, slices.Min(clocks), samples)
	return nil
}

func (t *table) print(w io.Writer, clock float64, samples [][]sample) {
	fmt.Fprintf(w, "\n%s (a clock read: %.1f ns)\n", t.title, clock)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tCPU\t(least)\tover bare\t(least)\tin clock reads\tB/op\tallocs/op\tallocs over bare\t")
	bare := summary(samples[0])
	for i, s := range samples {
		m := summary(s)
		var over []float64 // against the bare batch of the same round
		for r := range s {
			over = append(over, s[r].cpu-samples[0][r].cpu)
		}
		d := median(over)
		fmt.Fprintf(tw, "%s\t%.0f\t(%.0f)\t%+.0f\t%+.0f\t%+.1f\t%.0f\t%.0f\t%+.0f\t\n",
			t.names[i], m.cpu, m.wall, d, m.wall-bare.wall, (m.wall-bare.wall)/clock, m.bytes, m.allocs, m.allocs-bare.allocs)
	}
	tw.Flush()
}

// summary is the median of CPU and allocations and the minimum of wall time.
func summary(s []sample) sample {
	pick := func(f func(sample) float64) []float64 {
		var v []float64
		for _, x := range s {
			v = append(v, f(x))
		}
		return v
	}
	return sample{
		cpu: median(pick(func(s sample) float64 { return s.cpu })), wall: slices.Min(pick(func(s sample) float64 { return s.wall })),
		bytes: median(pick(func(s sample) float64 { return s.bytes })), allocs: median(pick(func(s sample) float64 { return s.allocs })),
	}
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

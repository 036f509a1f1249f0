package profiler

import (
	"encoding/json"
	"errors"
	"time"
)

// distributionJSON is a Distribution as it is encoded. The buckets are as Buckets gives them.
type distributionJSON struct {
	Count  uint64        `json:"count"`
	Sum    time.Duration `json:"sum_ns"`
	Min    time.Duration `json:"min_ns"`
	Max    time.Duration `json:"max_ns"`
	Scale  int           `json:"scale"`
	Zero   uint64        `json:"zero"`
	Offset int           `json:"offset"`
	Counts []uint64      `json:"counts"`
}

// MarshalJSON encodes count, sum, minimum and maximum in nanoseconds, and the buckets as Buckets gives them with their scale.
func (d *Distribution) MarshalJSON() ([]byte, error) {
	j := distributionJSON{Count: d.Count, Sum: d.Sum, Min: d.Min, Max: d.Max, Scale: BucketScale, Counts: []uint64{}}
	if zero, offset, counts := d.Buckets(); d.Count > 0 {
		j.Zero, j.Offset = zero, offset
		j.Counts = append(j.Counts, counts...)
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote, exactly. Buckets of another scale, or that are not all of what is counted, are an error, and d
// stays as it is.
func (d *Distribution) UnmarshalJSON(b []byte) error {
	j := distributionJSON{Scale: BucketScale}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	first := j.Offset - minExp*subBuckets + 1 // see Buckets
	if j.Scale != BucketScale || len(j.Counts) > 0 && (j.Offset < minExp*subBuckets || j.Offset >= maxExp*subBuckets+1 || len(j.Counts) > numBuckets-first) {
		return errors.New("profiler: Distribution: buckets that it can't hold")
	}
	r := Distribution{Count: j.Count, Sum: j.Sum, Min: j.Min, Max: j.Max}
	r.buckets[0] = j.Zero
	left := j.Count - j.Zero
	enough := j.Zero <= j.Count
	for i, n := range j.Counts {
		enough = enough && n <= left
		left -= n
		r.buckets[first+i] = n
	}
	if !enough || left != 0 || j.Sum < 0 || j.Min < 0 || j.Max < j.Min {
		return errors.New("profiler: Distribution: count, buckets and durations contradict each other")
	}
	*d = r
	return nil
}

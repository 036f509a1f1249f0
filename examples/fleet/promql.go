package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// ask has Prometheus' own engine evaluate a query over the scrape.
func (e *exposition) ask(ctx context.Context, query string) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	defer engine.Close()
	q, err := engine.NewInstantQuery(ctx, e, nil, query, e.at)
	if err != nil {
		return nil, fmt.Errorf("fleet: %s: %w", query, err)
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return nil, fmt.Errorf("fleet: %s: %w", query, r.Err)
	}
	if err := r.Warnings.AsErrors(); len(err) > 0 {
		return nil, fmt.Errorf("fleet: %s: %w", query, err[0])
	}
	v, err := r.Vector()
	if err != nil {
		return nil, fmt.Errorf("fleet: %s: %w", query, err)
	}
	copied := make(promql.Vector, len(v)) // the query's memory is reused after Close
	for i, s := range v {
		if copied[i] = s; s.H != nil {
			copied[i].H = s.H.Copy()
		}
	}
	return copied, nil
}

// askOne is ask for a query of one result.
func (e *exposition) askOne(ctx context.Context, query string) (promql.Sample, error) {
	v, err := e.ask(ctx, query)
	if err != nil {
		return promql.Sample{}, err
	}
	if len(v) != 1 {
		return promql.Sample{}, fmt.Errorf("fleet: %s: %d results", query, len(v))
	}
	return v[0], nil
}

var (
	_ storage.Queryable = (*exposition)(nil)
	_ storage.Querier   = querier{}
	_ storage.SeriesSet = (*found)(nil)
)

// Querier makes an exposition a storage that Prometheus' engine reads.
func (e *exposition) Querier(int64, int64) (storage.Querier, error) {
	return querier{Querier: storage.NoopQuerier(), e: e}, nil
}

type querier struct {
	storage.Querier
	e *exposition
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	f := &found{at: -1}
next:
	for _, s := range q.e.series {
		for _, m := range matchers {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue next
			}
		}
		f.series = append(f.series, storage.NewListSeries(s.labels, []chunks.Sample{sample{q.e.at.UnixMilli(), s.h}}))
	}
	return f
}

// found is a storage.SeriesSet of known series.
type found struct {
	series []storage.Series
	at     int
}

func (f *found) Next() bool                      { f.at++; return f.at < len(f.series) }
func (f *found) At() storage.Series              { return f.series[f.at] }
func (*found) Err() error                        { return nil }
func (*found) Warnings() annotations.Annotations { return nil }

// sample is a native histogram at an instant.
type sample struct {
	t int64
	h *histogram.FloatHistogram
}

func (s sample) T() int64                      { return s.t }
func (sample) ST() int64                       { return 0 }
func (sample) F() float64                      { return 0 }
func (sample) H() *histogram.Histogram         { return nil }
func (s sample) FH() *histogram.FloatHistogram { return s.h }
func (sample) Type() chunkenc.ValueType        { return chunkenc.ValFloatHistogram }
func (s sample) Copy() chunks.Sample           { return sample{s.t, s.h.Copy()} }

package otelmetric

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/connprof/connprof/profiler"
)

// durations are the points of one histogram. Points of equal attributes are merged.
type durations struct {
	description
	c      *collection
	points []durationPoint
	byAttr map[attribute.Distinct]int
}

type durationPoint struct {
	attrs attribute.Set
	d     *profiler.Distribution
	// own says that d belongs to no Report, extremes that minimum and maximum are those of what d counts and not of more.
	own, extremes bool
	exemplars     []metricdata.Exemplar[float64]
}

func (c *collection) durations(d description) *durations { return &durations{description: d, c: c} }

// add adds e's distribution of one measure and outcome; whole is e since counting began.
func (h *durations) add(attrs attribute.Set, e, whole *profiler.EndpointReport, m profiler.Measure, o profiler.Outcome) {
	d := e.Distribution(m, o)
	if d == nil || d.Count == 0 {
		return
	}
	added := durationPoint{attrs: attrs, d: d, extremes: whole.Distribution(m, o).Count == d.Count}
	switch m {
	case profiler.MeasureFirstQuery:
		added.exemplars = h.c.exemplars.of(e.Endpoint, ofFirst, o, h.c.from, h.c.at)
	case profiler.MeasureReusedQuery:
		added.exemplars = h.c.exemplars.of(e.Endpoint, ofReused, o, h.c.from, h.c.at)
	case profiler.MeasureOperation:
		added.exemplars = h.c.exemplars.of(e.Endpoint, ofWhole, o, h.c.from, h.c.at)
	}
	i, ok := h.byAttr[attrs.Equivalent()]
	if !ok {
		if h.byAttr == nil {
			h.byAttr = make(map[attribute.Distinct]int)
		}
		h.byAttr[attrs.Equivalent()] = len(h.points)
		h.points = append(h.points, added)
		return
	}
	p := &h.points[i]
	if !p.own {
		of := p.d
		p.d, p.own = new(profiler.Distribution), true
		p.d.Merge(of)
	}
	p.d.Merge(d)
	p.extremes = p.extremes && added.extremes
	p.exemplars = append(p.exemplars, added.exemplars...)
}

func (h *durations) appendTo(ms []metricdata.Metrics) []metricdata.Metrics {
	if len(h.points) == 0 {
		return ms
	}
	m := metricdata.Metrics{Name: h.name, Unit: h.unit, Description: h.text}
	if h.c.maxSize > 0 {
		data := metricdata.ExponentialHistogram[float64]{Temporality: h.c.temporality}
		for i := range h.points {
			data.DataPoints = append(data.DataPoints, h.points[i].exponential(h.c))
		}
		m.Data = data
	} else {
		data := metricdata.Histogram[float64]{Temporality: h.c.temporality}
		for i := range h.points {
			data.DataPoints = append(data.DataPoints, h.points[i].explicit(h.c))
		}
		m.Data = data
	}
	return append(ms, m)
}

func (p *durationPoint) exponential(c *collection) metricdata.ExponentialHistogramDataPoint[float64] {
	b := exponentialBuckets(p.d, c.maxSize)
	out := metricdata.ExponentialHistogramDataPoint[float64]{
		Attributes: p.attrs, StartTime: c.from, Time: c.at,
		Count: p.d.Count, Sum: p.d.Sum.Seconds(),
		Scale: int32(b.scale), ZeroCount: b.zero, ZeroThreshold: profiler.BucketZero,
		PositiveBucket: metricdata.ExponentialBucket{Offset: int32(b.offset), Counts: b.counts},
		Exemplars:      p.exemplars,
	}
	if p.extremes {
		out.Min, out.Max = metricdata.NewExtrema(p.d.Min.Seconds()), metricdata.NewExtrema(p.d.Max.Seconds())
	}
	return out
}

func (p *durationPoint) explicit(c *collection) metricdata.HistogramDataPoint[float64] {
	out := metricdata.HistogramDataPoint[float64]{
		Attributes: p.attrs, StartTime: c.from, Time: c.at,
		Count: p.d.Count, Sum: p.d.Sum.Seconds(),
		Bounds: c.boundaries, BucketCounts: explicitBuckets(p.d, c.boundaries),
		Exemplars: p.exemplars,
	}
	if p.extremes {
		out.Min, out.Max = metricdata.NewExtrema(p.d.Min.Seconds()), metricdata.NewExtrema(p.d.Max.Seconds())
	}
	return out
}

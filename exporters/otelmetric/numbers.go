package otelmetric

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// numbers are the points of one counter, or of a number that goes up and down. Points of equal attributes are added up.
type numbers struct {
	description
	sum    metricdata.Sum[int64]
	start  time.Time
	at     time.Time
	byAttr map[attribute.Distinct]int
}

// counter is a number of things that happened, in the collection's temporality.
func (c *collection) counter(d description) *numbers {
	return &numbers{description: d, sum: metricdata.Sum[int64]{Temporality: c.temporality, IsMonotonic: true}, start: c.from, at: c.at}
}

// number is one that goes up and down; it has no delta.
func (c *collection) number(d description) *numbers {
	return &numbers{description: d, sum: metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality}, start: c.start, at: c.at}
}

func (n *numbers) add(attrs attribute.Set, v int64) {
	if i, ok := n.byAttr[attrs.Equivalent()]; ok {
		n.sum.DataPoints[i].Value += v
		return
	}
	if n.byAttr == nil {
		n.byAttr = make(map[attribute.Distinct]int)
	}
	n.byAttr[attrs.Equivalent()] = len(n.sum.DataPoints)
	n.sum.DataPoints = append(n.sum.DataPoints, metricdata.DataPoint[int64]{Attributes: attrs, StartTime: n.start, Time: n.at, Value: v})
}

func (n *numbers) appendTo(ms []metricdata.Metrics) []metricdata.Metrics {
	if len(n.sum.DataPoints) == 0 {
		return ms
	}
	return append(ms, metricdata.Metrics{Name: n.name, Unit: n.unit, Description: n.text, Data: n.sum})
}

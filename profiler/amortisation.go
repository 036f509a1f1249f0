package profiler

import (
	"math"
	"time"
)

// Amortisation says what a query costs when the price of its connection is spread over the n queries that ran on it, and how much of
// that is TLS:
//
//	cost(n)      = (create + first + (n-1) · reused) / n
//	TLS share(n) = tls / (n · cost(n))
//
// All four inputs are medians of what was measured. For MongoDB, whose first call on a cold client also waits for the heartbeat
// connection (inside server selection), Create and TLS each include that connection's.
//
// Nothing changes it after it was made: its methods may be called concurrently. The zero value costs nothing.
type Amortisation struct {
	// Create, TLS, First and Reused are the medians; TLS is 0 where there is none.
	Create time.Duration `json:"create_ns"`
	TLS    time.Duration `json:"tls_ns"`
	First  time.Duration `json:"first_ns"`
	Reused time.Duration `json:"reused_ns"`
	// Rows are for 1, 10, 100 and 1000 queries on one connection.
	Rows []AmortisedCost `json:"rows"`
	// Below5 and Below1 are how many queries make TLS cost less than 5 % and 1 % of their time; 0 if there is no TLS.
	Below5 int64 `json:"tls_below_5_percent"`
	Below1 int64 `json:"tls_below_1_percent"`
}

// AmortisedCost is the price of one query of n.
type AmortisedCost struct {
	// N is how many queries share the connection, Cost and TLSShare are what Amortisation's methods give for it.
	N        int64         `json:"n"`
	Cost     time.Duration `json:"cost_ns"`
	TLSShare float64       `json:"tls_share"`
}

// Cost is what one of n queries on one connection costs, at most the longest Duration; n below 1 counts as 1.
func (a *Amortisation) Cost(n int64) time.Duration {
	n = max(n, 1)
	if cost := a.total(n) / float64(n); cost < math.MaxInt64 {
		return time.Duration(cost)
	}
	return math.MaxInt64
}

// total is in nanoseconds; as a float64 it has no end.
func (a *Amortisation) total(n int64) float64 {
	return float64(a.Create) + float64(a.First) + float64(n-1)*float64(a.Reused)
}

// TLSShare is the part of Cost(n) that is TLS, from 0 to 1; 0 where nothing costs anything.
func (a *Amortisation) TLSShare(n int64) float64 {
	t := a.total(max(n, 1))
	if t <= 0 {
		return 0
	}
	return float64(a.TLS) / t
}

// below is the smallest n with TLSShare(n) < share; 0 if there is no TLS, or no such n that is worth a number.
func (a *Amortisation) below(share float64) int64 {
	switch {
	case a.TLS <= 0:
		return 0
	case a.TLSShare(1) < share:
		return 1
	case a.Reused <= 0:
		return 0
	}
	more := math.Max(0, math.Floor((float64(a.TLS)/share-float64(a.Create)-float64(a.First))/float64(a.Reused)))
	if more >= 1<<50 { // beyond, float64 no longer tells n from n+1
		return 0
	}
	n := 1 + int64(more)
	for a.TLSShare(n) >= share { // rounding
		n++
	}
	for n > 1 && a.TLSShare(n-1) < share {
		n--
	}
	return n
}

func (a *Amortisation) fill() {
	a.Rows = nil
	for _, n := range []int64{1, 10, 100, 1000} {
		a.Rows = append(a.Rows, AmortisedCost{N: n, Cost: a.Cost(n), TLSShare: a.TLSShare(n)})
	}
	a.Below5, a.Below1 = a.below(0.05), a.below(0.01)
}

// amortise is nil where something is missing. monitor is MongoDB's heartbeat connections, if any.
func amortise(e, monitor *EndpointReport) *Amortisation {
	create, first, reused := e.Distribution(MeasureCreate, OK), e.Distribution(MeasureFirstQuery, OK), e.Distribution(MeasureReusedQuery, OK)
	if create == nil || first == nil || reused == nil {
		return nil
	}
	a := &Amortisation{
		Create: create.Quantile(0.5), First: first.Quantile(0.5), Reused: reused.Quantile(0.5),
		TLS: e.Distribution(Measure(TLS), OK).Quantile(0.5),
	}
	if monitor != nil {
		a.Create = plus(a.Create, monitor.Distribution(MeasureCreate, OK).Quantile(0.5))
		a.TLS = plus(a.TLS, monitor.Distribution(Measure(TLS), OK).Quantile(0.5))
	}
	a.fill()
	return a
}

// Amortise makes the table from given medians: for a report of an experiment that measured them itself.
func Amortise(create, tls, first, reused time.Duration) *Amortisation {
	a := &Amortisation{Create: create, TLS: tls, First: first, Reused: reused}
	a.fill()
	return a
}

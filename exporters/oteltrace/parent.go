package oteltrace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

type parentKind uint8

const (
	noParent parentKind = iota // no span above: a root, the sampler decides
	unsampled
	sampled
)

// parent is where a span hangs.
type parent struct {
	ctx  context.Context
	kind parentKind
	span trace.Span // of ctx, if sampled
}

// root is the parent of a span that belongs to no caller.
var root = parent{ctx: context.Background()}

// parentOf is the parent that ctx gives.
func parentOf(ctx context.Context) parent {
	span := trace.SpanFromContext(ctx)
	sc := span.SpanContext()
	switch {
	case !sc.IsValid():
		return parent{ctx: ctx}
	case sc.IsSampled():
		return parent{ctx: ctx, kind: sampled, span: span}
	}
	return parent{ctx: ctx, kind: unsampled}
}

// started is when the parent started, the zero time if it doesn't tell. The API has no such question, but the SDK's recording spans
// (sdk/trace.ReadOnlySpan) answer it.
func (p parent) started() time.Time {
	if s, ok := p.span.(interface{ StartTime() time.Time }); ok {
		return s.StartTime()
	}
	return time.Time{}
}

// clockStep is the disagreement between two anchors from which on it is a step of the wall clock, not the noise of reading two clocks.
const clockStep = time.Millisecond

// shift is what to add to t, and to what belongs to it, to place it on the wall clock of a parent that started at start. A connection's
// times have one anchor, taken when it was made. If the wall clock was stepped since (NTP, a suspended machine), they don't fit those of a
// younger parent, and the child would seem to start before it. Both times have monotonic readings, which tell the true distance.
func shift(start, t time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	distance := t.Sub(start)
	seen := t.Round(0).Sub(start.Round(0)) // Round(0) strips the monotonic reading
	d := distance - seen
	if d > -clockStep && d < clockStep && (seen >= 0 || distance < 0) {
		return 0
	}
	return d
}

package profiler

// Measure is a duration that is collected in series: the phases of a create (Measure(p) for a Phase p), and what follows here.
type Measure uint8

const (
	// MeasureCreate is the whole create. OpenTelemetry's db.client.connection.create_time.
	MeasureCreate = Measure(NumPhases) + iota
	// MeasureUse is checkout to return. OpenTelemetry's db.client.connection.use_time.
	MeasureUse
	// MeasureIdle is return to next checkout.
	MeasureIdle
	// MeasureLife is ready to closed.
	MeasureLife
	// MeasureWait is the caller's wait for a connection, a create it waited for included; only waits that are known. One of another outcome
	// than OK ended without a connection.
	MeasureWait
	// MeasureQueued is MeasureWait without its overlap with the create it waited for.
	MeasureQueued
	// MeasureFirstQuery is an operation's start to its first response, for the first operation on a connection.
	MeasureFirstQuery
	// MeasureReusedQuery is the same for every later operation.
	MeasureReusedQuery
	// MeasureRows is first response to rows closed.
	MeasureRows
	// MeasureOperation is an operation's start to its end, rows closed. OpenTelemetry's db.client.operation.duration. It is collected once
	// Profiler.CollectOperations was called.
	MeasureOperation
	// MeasureStaleIdle is how long a connection had been idle when it was found dead.
	MeasureStaleIdle
	// MeasureCheck is what the pool's own check took that a connection is alive, before it handed it over. It is no part of MeasureWait.
	MeasureCheck
	// NumMeasures bounds arrays indexed by Measure.
	NumMeasures
)

var measureNames = [...]string{"create", "use", "idle", "life", "wait", "queued", "first_query", "reused_query", "rows", "operation", "stale_idle", "liveness_check"}

// String is the measure's name.
func (m Measure) String() string {
	if m < Measure(NumPhases) {
		return Phase(m).String()
	}
	if m < NumMeasures {
		return measureNames[m-MeasureCreate]
	}
	return "invalid"
}

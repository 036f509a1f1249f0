package otelmetric

import (
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0" // this and the next line are the one place that names the version
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"

	"github.com/connprof/connprof/profiler"
)

const (
	schemaURL = semconv.SchemaURL
	scopeName = "github.com/connprof/connprof/exporters/otelmetric"
)

// A description is what a metric is called, which is the same for all its points.
type description struct{ name, unit, text string }

// conventional is how semconv's instruments describe themselves.
type conventional interface {
	Name() string
	Unit() string
	Description() string
}

func described(c conventional) description { return description{c.Name(), c.Unit(), c.Description()} }

// The metrics of the semantic conventions.
var (
	operationDuration    = described(dbconv.ClientOperationDuration{})
	connectionCount      = described(dbconv.ClientConnectionCount{})
	connectionMax        = described(dbconv.ClientConnectionMax{})
	connectionIdleMax    = described(dbconv.ClientConnectionIdleMax{})
	connectionIdleMin    = described(dbconv.ClientConnectionIdleMin{})
	connectionPending    = described(dbconv.ClientConnectionPendingRequests{})
	connectionTimeouts   = described(dbconv.ClientConnectionTimeouts{})
	connectionCreateTime = described(dbconv.ClientConnectionCreateTime{})
	connectionWaitTime   = described(dbconv.ClientConnectionWaitTime{})
	connectionUseTime    = described(dbconv.ClientConnectionUseTime{})
)

// Our own.
var (
	phaseDuration = description{"connprof.connection.phase.duration", "s", "The time that one phase of a create took."}
	dials         = description{"connprof.connection.dials", "{connection}", "The connections that were made, or could not be made."}
	closed        = description{"connprof.connection.closed", "{connection}", "The connections that were closed."}
	stale         = description{"connprof.connection.stale", "{connection}", "The connections that were found dead when a caller was to have one."}
	queryDuration = description{"connprof.query.duration", "s", "The time from an operation's start to its first response."}
	rowsDuration  = description{"connprof.query.rows.duration", "s", "The time from an operation's first response to its rows closed."}
	handshakes    = description{"connprof.tls.handshakes", "{handshake}", "The TLS handshakes that were completed."}
	refusals      = description{"connprof.tls.resumptions.refused", "{handshake}", "The TLS handshakes that offered a session which the server did not take."}
	dropped       = description{"connprof.dropped", "{item}", "What did not fit into a bound of the profiler."}
	sinkPanics    = description{"connprof.sink.panics", "{panic}", "The panics of sinks that were recovered."}
)

// Our own attributes; those that oteltrace has too mean the same there.
const (
	keyPhase       = attribute.Key("connprof.phase")
	keyOutcome     = attribute.Key("connprof.outcome")
	keyRole        = attribute.Key("connprof.role")
	keyFailedPhase = attribute.Key("connprof.create.failed_phase")
	keyCloseReason = attribute.Key("connprof.close.reason")
	keyReused      = attribute.Key("connprof.connection.reused")
	keyHelloRetry  = attribute.Key("connprof.tls.hello_retry")
	keyDropped     = attribute.Key("connprof.dropped.kind")
)

// poolNameOf is db.client.connection.pool.name: the pool's own name, else its address, as for WatchPool.
func poolNameOf(e profiler.Endpoint) attribute.KeyValue {
	if e.Pool != "" {
		return poolName(e.Pool)
	}
	return poolName(e.Address)
}

func poolName(name string) attribute.KeyValue { return semconv.DBClientConnectionPoolName(name) }

// handshakeAttributes are what a handshake was like.
func handshakeAttributes(h *profiler.HandshakeCount) []attribute.KeyValue {
	return []attribute.KeyValue{tlsVersion(h.Version), semconv.TLSResumed(h.Resumed), keyHelloRetry.Bool(h.HelloRetry)}
}

// errorClass is error.type of a failed create: profiler.ErrorClass, which has 16 values.
func errorClass(class string) attribute.KeyValue { return semconv.ErrorTypeKey.String(class) }

// operationError is error.type of operations that ended so; a driver's own codes would be without bound.
func operationError(o profiler.Outcome) []attribute.KeyValue {
	switch o {
	case profiler.OK:
		return nil
	case profiler.Failed:
		return []attribute.KeyValue{semconv.ErrorTypeOther}
	}
	return []attribute.KeyValue{semconv.ErrorTypeKey.String(o.String())}
}

// databaseAttributes are those of endpointAttributes that the semantic conventions have for operations.
func databaseAttributes(of []attribute.KeyValue) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	for _, kv := range of {
		if kv.Key != keyRole && kv.Key != semconv.DBClientConnectionPoolNameKey {
			attrs = append(attrs, kv)
		}
	}
	return attrs
}

var (
	stateUsed = semconv.DBClientConnectionStateUsed
	stateIdle = semconv.DBClientConnectionStateIdle
)

// tlsVersion is tls.protocol.version: "1.3" for crypto/tls's "TLS 1.3".
func tlsVersion(name string) attribute.KeyValue {
	return semconv.TLSProtocolVersion(strings.TrimPrefix(name, "TLS "))
}

// endpointAttributes are those of what connections are counted by. Each has the values of at most Profiler.MaxEndpoints endpoints.
func endpointAttributes(e profiler.Endpoint, role string) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 8), keyRole.String(role))
	if e.System != "" {
		attrs = append(attrs, semconv.DBSystemNameKey.String(e.System))
	}
	if e.Namespace != "" {
		attrs = append(attrs, semconv.DBNamespace(e.Namespace))
	}
	if role == profiler.RolePool.String() {
		attrs = append(attrs, poolNameOf(e))
	}
	if e.Address == "" {
		return attrs
	}
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil { // the path of a unix socket
		return append(attrs, semconv.ServerAddress(e.Address))
	}
	attrs = append(attrs, semconv.ServerAddress(host))
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, semconv.ServerPort(n))
	}
	return attrs
}

package oteltrace

import (
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0" // the one place that names the version

	"github.com/connprof/connprof/profiler"
)

const schemaURL = semconv.SchemaURL

// The attributes that the semantic conventions don't have. Package documentation says what each means.
const (
	keyConnID        = attribute.Key("connprof.connection.id")
	keyReused        = attribute.Key("connprof.connection.reused")
	keyIdle          = attribute.Key("connprof.connection.idle")
	keyCreate        = attribute.Key("connprof.connection.create")
	keyTLSDuration   = attribute.Key("connprof.connection.tls.duration")
	keyIndex         = attribute.Key("connprof.query.index")
	keyFirstResponse = attribute.Key("connprof.query.first_response")
	keyTurns         = attribute.Key("connprof.query.turns")
	keySent          = attribute.Key("connprof.query.sent")
	keyReceived      = attribute.Key("connprof.query.received")
	keyAttempts      = attribute.Key("connprof.query.attempts")
	keyLost          = attribute.Key("connprof.query.lost")
	keyStaleIdle     = attribute.Key("connprof.query.stale_idle")
	keySelection     = attribute.Key("connprof.query.selection")
	keyPrepared      = attribute.Key("connprof.query.prepared")
	keyRowsDriver    = attribute.Key("connprof.query.rows.driver")
	keyRowsConsumer  = attribute.Key("connprof.query.rows.consumer")
	keyTLSAmortized  = attribute.Key("connprof.tls.amortized")
	keyHelloRetry    = attribute.Key("connprof.tls.hello_retry")
	keyWait          = attribute.Key("connprof.wait")
	keyWaitedFor     = attribute.Key("connprof.waited_for")
	keyQueued        = attribute.Key("connprof.queued")
	keyRTT           = attribute.Key("connprof.tcp.rtt")
	keyRetransmits   = attribute.Key("connprof.tcp.retransmits")
	keyBackground    = attribute.Key("connprof.create.background")
	keyPartial       = attribute.Key("connprof.create.partial")
	keyFailedPhase   = attribute.Key("connprof.create.failed_phase")
	keyRole          = attribute.Key("connprof.role")
	keyRoleKind      = attribute.Key("connprof.role.kind")
	keyAnswers       = attribute.Key("connprof.resolve.answers")
	keyLookups       = attribute.Key("connprof.resolve.lookups")
	keyAuthTurns     = attribute.Key("connprof.auth.turns")
	keyAuthWait      = attribute.Key("connprof.auth.wait")
	keyReached       = attribute.Key("connprof.attempt.reached")
	keyDuration      = attribute.Key("connprof.attempt.duration")
)

// phaseKeys are connprof.phase.<phase>; a name's "+" is none of the characters that attribute names are made of.
var phaseKeys = func() (keys [profiler.NumPhases]attribute.Key) {
	for p := range profiler.Phases {
		keys[p] = attribute.Key("connprof.phase." + strings.ReplaceAll(p.String(), "+", "_"))
	}
	return keys
}()

func seconds(k attribute.Key, d time.Duration) attribute.KeyValue { return k.Float64(d.Seconds()) }

// connAttributes are those that all spans of a connection share, db.namespace excepted, which an operation may name itself.
func connAttributes(c *profiler.Conn, cr *profiler.Create) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 6), keyConnID.String(strconv.FormatUint(c.ID(), 10)))
	attrs = appendEndpoint(attrs, c.Endpoint())
	return appendAddress(attrs, cr.Wire.Peer, semconv.NetworkPeerAddressKey, semconv.NetworkPeerPortKey)
}

func appendEndpoint(attrs []attribute.KeyValue, e profiler.Endpoint) []attribute.KeyValue {
	if e.System != "" {
		attrs = append(attrs, semconv.DBSystemNameKey.String(e.System))
	}
	return appendAddress(attrs, e.Address, semconv.ServerAddressKey, semconv.ServerPortKey)
}

// appendAddress adds host and port, or the path of a unix socket.
func appendAddress(attrs []attribute.KeyValue, address string, host, port attribute.Key) []attribute.KeyValue {
	if address == "" {
		return attrs
	}
	h, p, err := net.SplitHostPort(address)
	if err != nil {
		return append(attrs, host.String(address))
	}
	attrs = append(attrs, host.String(h))
	if n, err := strconv.Atoi(p); err == nil {
		attrs = append(attrs, port.Int(n))
	}
	return attrs
}

func appendNamespace(attrs []attribute.KeyValue, namespace string) []attribute.KeyValue {
	if namespace == "" {
		return attrs
	}
	return append(attrs, semconv.DBNamespace(namespace))
}

func appendTransport(attrs []attribute.KeyValue, t profiler.Transport) []attribute.KeyValue {
	switch t {
	case profiler.TransportTCP:
		return append(attrs, semconv.NetworkTransportTCP)
	case profiler.TransportUnix:
		return append(attrs, semconv.NetworkTransportUnix)
	}
	return attrs
}

// appendTLS adds what the records of a handshake showed; after a failure that may be part of it.
func appendTLS(attrs []attribute.KeyValue, t *profiler.TLSInfo) []attribute.KeyValue {
	if !t.Seen {
		return attrs
	}
	attrs = append(attrs, semconv.TLSProtocolNameTLS, keyHelloRetry.Bool(t.HelloRetry))
	if t.Version == 0 { // no ServerHello
		return attrs
	}
	attrs = append(attrs, semconv.TLSProtocolVersion(strings.TrimPrefix(t.VersionName(), "TLS ")), semconv.TLSResumed(t.Resumed))
	if name := t.CipherName(); name != "" {
		attrs = append(attrs, semconv.TLSCipher(name))
	}
	if name := t.GroupName(); name != "" {
		attrs = append(attrs, semconv.TLSCurve(name))
	}
	return attrs
}

// errorType is error.type: the outcome where it says more than the driver's error, else the server's code, else the error's type. Never its
// text.
func errorType(o profiler.Outcome, code string, err error) attribute.KeyValue {
	switch {
	case o == profiler.Canceled || o == profiler.Timeout:
		return semconv.ErrorTypeKey.String(o.String())
	case code != "":
		return semconv.ErrorTypeKey.String(code)
	}
	return semconv.ErrorType(err)
}

func responseStatus(code string) attribute.KeyValue { return semconv.DBResponseStatusCode(code) }
func operationName(name string) attribute.KeyValue  { return semconv.DBOperationName(name) }
func queryText(text string) attribute.KeyValue      { return semconv.DBQueryText(text) }
func poolName(name string) attribute.KeyValue       { return semconv.DBClientConnectionPoolName(name) }
func lookedUp(host string) attribute.KeyValue       { return semconv.DNSQuestionName(host) }
func peerAddress(attrs []attribute.KeyValue, address string) []attribute.KeyValue {
	return appendAddress(attrs, address, semconv.NetworkPeerAddressKey, semconv.NetworkPeerPortKey)
}

func querySummary(s string) attribute.KeyValue      { return semconv.DBQuerySummary(s) }
func collectionName(name string) attribute.KeyValue { return semconv.DBCollectionName(name) }

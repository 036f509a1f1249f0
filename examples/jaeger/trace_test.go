package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// As Jaeger 1.76 answers, shortened.
const answered = `{"result":{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[
{"scope":{"name":"ours"},"spans":[{"traceId":"abab","spanId":"e398","parentSpanId":"e0a6","flags":257,"name":"find usertable","kind":3,
"startTimeUnixNano":"1796096801999269498","endTimeUnixNano":"1796096802012281729","droppedAttributesCount":1,"attributes":[
{"key":"text","value":{"stringValue":"free"}},{"key":"truth","value":{"boolValue":false}},{"key":"whole","value":{"intValue":"9007199254740993"}},
{"key":"real","value":{"doubleValue":0.0125}}],
"events":[{"name":"attempt_lost","timeUnixNano":"1796096801999269499","attributes":[{"key":"x","value":{"intValue":"-1"}}]}],
"links":[{"traceId":"979f","spanId":"1b7b","flags":257}],"status":{"code":2,"message":"error in auth"}}]},
{"scope":{"name":"shop"},"spans":[{"traceId":"abab","spanId":"e0a6","name":"GET /","kind":2,
"startTimeUnixNano":"1796096801999118186","endTimeUnixNano":"1796096802012462354","status":{}}]}]}]}}`

func TestTraceIsReadAsJaegerTellsIt(t *testing.T) {
	spans, err := parseTrace([]byte(answered))
	if err != nil {
		t.Fatal(err)
	}
	root, err := tree(spans)
	if err != nil {
		t.Fatal(err)
	}
	if root.name != "GET /" || root.kind != "SERVER" || root.service != "shop" || root.scope != "shop" || root.failed || len(root.children) != 1 {
		t.Errorf("root %+v", root)
	}
	got := *root.children[0]
	want := span{
		trace: "abab", id: "e398", parent: "e0a6", name: "find usertable", kind: "CLIENT", start: 1796096801999269498, end: 1796096802012281729,
		attrs: map[string]any{"text": "free", "truth": false, "whole": int64(9007199254740993), "real": 0.0125},
		links: []link{{"979f", "1b7b", map[string]any{}}}, events: []event{{"attempt_lost", 1796096801999269499, map[string]any{"x": int64(-1)}}},
		failed: true, status: "error in auth", service: "shop", scope: "ours", dropped: 1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestWaterfallIsDrawnToScale(t *testing.T) {
	ms := func(from, to float64) (s span) {
		s.start, s.end = int64(from*float64(time.Millisecond)), int64(to*float64(time.Millisecond))
		return s
	}
	root := ms(0, 32)
	root.name = "GET /orders"
	setup := ms(0, 16)
	setup.name, setup.parent, setup.failed, setup.status = "connection_setup db:3306", "1", true, "error in auth: check user"
	tls := ms(8, 15.5)
	tls.name, tls.attrs = "tls", map[string]any{"tls.resumed": true}
	verify := ms(15.5, 15.501)
	verify.name = "verify"
	query := ms(16, 32)
	query.name = "SELECT orders"
	query.attrs = map[string]any{"connprof.query.index": int64(2), "connprof.connection.idle": 0.025, "connprof.tls.amortized": 0.00375}
	setup.children, root.children = []*span{&tls, &verify}, []*span{&setup, &query}
	want := `
GET /orders                    32.0 ms  ████████████████████████████████
├─ connection_setup db:3306    16.0     ████████████████                  ✗ error in auth
│  ├─ tls                      7.50             ███████▌                  resumed
│  └─ verify                  0.001                    ▌
└─ SELECT orders               16.0                     ████████████████  reused, query 2, 25.0 ms idle before, TLS 3.75 a query
`
	if got := "\n" + waterfall(&root); got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

func TestFlagsThatContradict(t *testing.T) {
	for _, args := range [][]string{{"check"}, {"-ui", ".", "-jaeger", "http://localhost:16686"}, {"-ui", "no/such/folder"}, {"-nonsense"}} {
		var said strings.Builder
		if _, err := parse(args, &said); err == nil || said.Len() == 0 {
			t.Errorf("%v: error %v, said %q", args, err, &said)
		}
	}
}

func TestJaegerIsBuiltFromItsOwnModule(t *testing.T) {
	version, sum, err := required()
	if err != nil || !strings.HasPrefix(version, "v1.") || len(sum) != 8 {
		t.Errorf("version %q, sum %q, error %v", version, sum, err)
	}
}

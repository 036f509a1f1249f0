package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A span is one as Jaeger's /api/v3/traces tells it.
type span struct {
	trace, id, parent string
	name, kind        string
	start, end        int64          // Unix nanoseconds
	attrs             map[string]any // string, bool, int64, float64
	links             []link
	events            []event
	failed            bool   // status ERROR
	status            string // its description
	service, scope    string
	dropped           int // attributes, events and links that the SDK left out

	children []*span // by start
}

type link struct {
	trace, id string
	attrs     map[string]any
}

type event struct {
	name  string
	at    int64
	attrs map[string]any
}

func (s *span) duration() time.Duration { return time.Duration(s.end - s.start) }

// child is the first child of a name, nil if there is none.
func (s *span) child(name string) *span {
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// walk visits s and all below it, parents first.
func (s *span) walk(visit func(s *span, depth int)) { s.descend(visit, 0) }

func (s *span) descend(visit func(*span, int), depth int) {
	visit(s, depth)
	for _, c := range s.children {
		c.descend(visit, depth+1)
	}
}

// fetch waits until Jaeger has n spans of the trace and returns what it has.
func (j *jaeger) fetch(ctx context.Context, traceID string, n int) ([]*span, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var spans []*span
	for {
		body, err := j.get(ctx, "/api/v3/traces/"+traceID)
		if err == nil {
			spans, err = parseTrace(body)
		}
		if err == nil && len(spans) >= n {
			return spans, nil
		}
		select {
		case <-ctx.Done():
			if spans != nil {
				return spans, nil
			}
			return nil, cmp.Or(err, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// warnings are what Jaeger's user interface would show beside the spans of a trace that it finds fault with.
func (j *jaeger) warnings(ctx context.Context, traceID string) ([]string, error) {
	body, err := j.get(ctx, "/api/traces/"+traceID)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data []struct {
			Warnings []string
			Spans    []struct {
				OperationName string
				Warnings      []string
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	var all []string
	for _, t := range answer.Data {
		all = append(all, t.Warnings...)
		for _, s := range t.Spans {
			for _, w := range s.Warnings {
				all = append(all, s.OperationName+": "+w)
			}
		}
	}
	return all, nil
}

func (j *jaeger) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.query+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	return body, err
}

// parseTrace reads the answer: OTLP's JSON, in which IDs are hexadecimal and 64-bit integers are strings.
func parseTrace(body []byte) ([]*span, error) {
	var answer struct {
		Result struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes attributes }
				ScopeSpans []struct {
					Scope struct{ Name string }
					Spans []struct {
						TraceID, SpanID, ParentSpanID         string
						Name                                  string
						Kind                                  int
						StartTimeUnixNano, EndTimeUnixNano    string
						Attributes                            attributes
						DroppedAttributesCount                int
						DroppedEventsCount, DroppedLinksCount int
						Status                                struct {
							Code    int
							Message string
						}
						Links []struct {
							TraceID, SpanID string
							Attributes      attributes
						}
						Events []struct {
							Name         string
							TimeUnixNano string
							Attributes   attributes
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("parse a trace: %w", err)
	}
	var spans []*span
	var failed error
	nanos := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			failed = fmt.Errorf("parse a trace: time: %w", err)
		}
		return n
	}
	for _, r := range answer.Result.ResourceSpans {
		for _, sc := range r.ScopeSpans {
			for _, x := range sc.Spans {
				s := &span{
					trace: x.TraceID, id: x.SpanID, parent: x.ParentSpanID, name: x.Name, kind: kindName(x.Kind),
					start: nanos(x.StartTimeUnixNano), end: nanos(x.EndTimeUnixNano), attrs: x.Attributes.values(),
					failed: x.Status.Code == 2, status: x.Status.Message, scope: sc.Scope.Name,
					dropped: x.DroppedAttributesCount + x.DroppedEventsCount + x.DroppedLinksCount,
				}
				s.service, _ = r.Resource.Attributes.values()["service.name"].(string)
				for _, l := range x.Links {
					s.links = append(s.links, link{l.TraceID, l.SpanID, l.Attributes.values()})
				}
				for _, e := range x.Events {
					s.events = append(s.events, event{e.Name, nanos(e.TimeUnixNano), e.Attributes.values()})
				}
				spans = append(spans, s)
			}
		}
	}
	return spans, failed
}

func kindName(k int) string {
	names := []string{"UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"}
	if k < 0 || k >= len(names) {
		return strconv.Itoa(k)
	}
	return names[k]
}

// attributes are OTLP's list of them.
type attributes []struct {
	Key   string
	Value struct {
		StringValue *string
		BoolValue   *bool
		IntValue    *json.Number
		DoubleValue *float64
	}
}

func (a attributes) values() map[string]any {
	m := make(map[string]any, len(a))
	for _, kv := range a {
		switch v := kv.Value; {
		case v.StringValue != nil:
			m[kv.Key] = *v.StringValue
		case v.BoolValue != nil:
			m[kv.Key] = *v.BoolValue
		case v.IntValue != nil:
			n, _ := strconv.ParseInt(strings.Trim(v.IntValue.String(), `"`), 10, 64)
			m[kv.Key] = n
		case v.DoubleValue != nil:
			m[kv.Key] = *v.DoubleValue
		default:
			m[kv.Key] = nil
		}
	}
	return m
}

// tree puts the spans of one trace under their parents. A trace has one root, and each other span its parent in it.
func tree(spans []*span) (*span, error) {
	byID := make(map[string]*span, len(spans))
	for _, s := range spans {
		if byID[s.id] != nil {
			return nil, fmt.Errorf("two spans have the ID %s: %s and %s", s.id, byID[s.id].name, s.name)
		}
		byID[s.id] = s
		s.children = nil
	}
	var root *span
	for _, s := range spans {
		switch parent := byID[s.parent]; {
		case parent != nil:
			parent.children = append(parent.children, s)
		case s.parent != "":
			return nil, fmt.Errorf("%s has a parent that is not in its trace", s.name)
		case root != nil:
			return nil, fmt.Errorf("two roots: %s and %s", root.name, s.name)
		default:
			root = s
		}
	}
	if root == nil {
		return nil, fmt.Errorf("no root among %d spans", len(spans))
	}
	for _, s := range spans {
		slices.SortStableFunc(s.children, func(a, b *span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	}
	return root, nil
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An expected span is what a span of a trace must be. Everything is compared: a span, a link, an attribute that is not expected is as wrong
// as one that is missing.
type expected struct {
	name, kind string
	status     string // of a span that failed: its description, "-" for a failed one without
	attrs      conditions
	least      time.Duration // the delay that was put into it
	link       string        // the label of the span it links to, "" for no link
	label      string        // under which its connection's span is remembered for links to it
	children   []expected    // in the order of their start
	also       func(c *checker, got *span)
}

// child is the expected child of a name.
func (e *expected) child(name string) *expected {
	for i := range e.children {
		if e.children[i].name == name {
			return &e.children[i]
		}
	}
	return nil
}

// conditions say of each attribute that a span has what its value must be.
type conditions map[string]condition

// A condition returns what is wrong with a value, "" if nothing is.
type condition func(value any) string

func (c conditions) clone() conditions { return maps.Clone(c) }

// add puts more conditions into c, in place of those that c has for the same attributes, and returns c.
func (c conditions) add(more conditions) conditions {
	maps.Copy(c, more)
	return c
}

func equal[T string | bool | int64 | float64](want T) condition {
	return func(v any) string {
		if got, ok := v.(T); !ok || got != want {
			return fmt.Sprintf("is %v (%T), want %v (%T)", v, v, want, want)
		}
		return ""
	}
}

func oneOf(want ...string) condition {
	return func(v any) string {
		if got, ok := v.(string); !ok || !slices.Contains(want, got) {
			return fmt.Sprintf("is %v (%T), want one of %s", v, v, strings.Join(want, ", "))
		}
		return ""
	}
}

// atLeast is a duration in seconds; no more than it had to be is asked of it.
func atLeast(want time.Duration) condition {
	return func(v any) string {
		if got, ok := v.(float64); !ok || got < want.Seconds() {
			return fmt.Sprintf("is %v (%T), want at least %v seconds", v, v, want.Seconds())
		}
		return ""
	}
}

// anyNumber is a count that depends on the machine.
func anyNumber(v any) string {
	if got, ok := v.(int64); !ok || got < 0 {
		return fmt.Sprintf("is %v (%T), want a number", v, v)
	}
	return ""
}

// positive is a count that can't be 0.
func positive(v any) string {
	if got, ok := v.(int64); !ok || got <= 0 {
		return fmt.Sprintf("is %v (%T), want a number above 0", v, v)
	}
	return ""
}

// anyText is what differs from run to run.
func anyText(v any) string {
	if got, ok := v.(string); !ok || got == "" {
		return fmt.Sprintf("is %v (%T), want a text", v, v)
	}
	return ""
}

// A checker collects what is wrong with the traces, and keeps what later ones refer to.
type checker struct {
	connections map[string]*span // by label
	made        map[string]*used // connections, by the key of their span
	wrong       []string         // of the present trace
	chance      int              // waits that nobody put there

	spans, attributes int // compared so far
}

func newChecker() *checker {
	return &checker{connections: make(map[string]*span), made: make(map[string]*used)}
}

func (c *checker) fail(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// judge holds a trace against what is expected of it and against the traces before it.
func (c *checker) judge(v sight, root *span) {
	c.consistent(root)
	c.compare(root, v.want, "")
	if v.took > 0 && root.duration() > v.took {
		c.fail("%s: took %v, longer than its client waited, %v", root.name, root.duration(), v.took)
	}
}

// compare holds a span and all below it against what is expected.
func (c *checker) compare(got *span, want expected, path string) {
	path += "/" + got.name
	c.spans++
	if got.name != want.name {
		c.fail("%s: want the name %q", path, want.name)
	}
	if got.kind != want.kind {
		c.fail("%s: kind %s, want %s", path, got.kind, want.kind)
	}
	switch wantStatus := strings.TrimSuffix(want.status, "-"); {
	case got.failed != (want.status != ""):
		c.fail("%s: in error: %v, want %v", path, got.failed, want.status != "")
	case got.status != wantStatus:
		c.fail("%s: status %q, want %q", path, got.status, wantStatus)
	}
	if d := got.duration(); d < want.least {
		c.fail("%s: took %v, less than the %v that it was held up", path, d, want.least)
	}
	if len(got.events) > 0 {
		c.fail("%s: events %v, want none", path, got.events)
	}
	c.compareAttributes(got, want, path)
	if want.label != "" {
		c.connections[want.label] = got
	}
	children := c.withoutChance(got, want)
	for i := range max(len(children), len(want.children)) {
		switch {
		case i >= len(children):
			c.fail("%s: no child %s", path, want.children[i].name)
		case i >= len(want.children):
			c.fail("%s: child %s, want none there", path, children[i].name)
		default:
			c.compare(children[i], want.children[i], path)
		}
	}
	c.compareLinks(got, want, path) // after the children: a query's connection may be among them
	if want.also != nil && len(c.wrong) == 0 {
		want.also(c, got)
	}
}

// withoutChance are the children of got without the waits that nobody put there. A machine that is busy enough lets any caller wait for
// longer than waitThreshold; consistent has seen that such a wait is one.
func (c *checker) withoutChance(got *span, want expected) []*span {
	var children []*span
	for _, child := range got.children {
		if isWait(child) && want.child(child.name) == nil && child.duration() > waitThreshold {
			c.chance++
			continue
		}
		children = append(children, child)
	}
	return children
}

func (c *checker) compareAttributes(got *span, want expected, path string) {
	c.attributes += len(got.attrs)
	for _, key := range slices.Sorted(maps.Keys(got.attrs)) {
		if condition := want.attrs[key]; condition == nil {
			c.fail("%s: attribute %s=%v, want none", path, key, got.attrs[key])
		} else if wrong := condition(got.attrs[key]); wrong != "" {
			c.fail("%s: attribute %s %s", path, key, wrong)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want.attrs)) {
		if _, ok := got.attrs[key]; !ok {
			c.fail("%s: no attribute %s", path, key)
		}
	}
}

func (c *checker) compareLinks(got *span, want expected, path string) {
	if want.link == "" {
		if len(got.links) > 0 {
			c.fail("%s: %d links, want none", path, len(got.links))
		}
		return
	}
	to := c.connections[want.link]
	switch {
	case to == nil:
		c.fail("%s: want a link to the connection %q, which no trace has", path, want.link)
	case len(got.links) != 1:
		c.fail("%s: %d links, want one to %s", path, len(got.links), to.name)
	case got.links[0].trace != to.trace || got.links[0].id != to.id:
		c.fail("%s: linked to span %s of trace %s, want %s of %s", path, got.links[0].id, got.links[0].trace, to.id, to.trace)
	case len(got.links[0].attrs) > 0:
		c.fail("%s: attributes on its link %v, want none", path, got.links[0].attrs)
	}
}

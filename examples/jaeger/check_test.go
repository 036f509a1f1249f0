package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryTraceIsAsExpected(t *testing.T) {
	p := theScenes(t)
	if p.failures > 0 || len(p.seen) != 12 {
		t.Errorf("%d traces, %d failures", len(p.seen), p.failures)
	}
	for _, v := range p.seen {
		for _, wrong := range check(p, v.name, nil) {
			t.Errorf("%s: %s", v.name, wrong)
		}
	}
}

// check judges the traces again from the first on, as far as the one with the name, whose spans change has changed before, and returns what
// is wrong with it.
func check(p *page, name string, change func(spans []*span) []*span) []string {
	c := newChecker()
	for _, v := range p.seen {
		c.wrong = nil
		spans := copied(v.spans)
		if v.name == name && change != nil {
			spans = change(spans)
		}
		root, err := tree(spans)
		if err != nil {
			return []string{err.Error()}
		}
		c.judge(v.sight, root)
		if v.name == name {
			return c.wrong
		}
	}
	return []string{"no trace " + name}
}

func copied(spans []*span) []*span {
	var all []*span
	for _, s := range spans {
		c := *s
		c.attrs, c.links, c.children = maps.Clone(s.attrs), slices.Clone(s.links), nil
		all = append(all, &c)
	}
	return all
}

// pick is the first span, by start, whose name's first word is this.
func pick(spans []*span, word string) *span {
	var first *span
	for _, s := range spans {
		if name, _, _ := strings.Cut(s.name, " "); name == strings.TrimSpace(word) && (first == nil || s.start < first.start) {
			first = s
		}
	}
	return first
}

func TestCheckNoticesWhatIsWrong(t *testing.T) {
	p := theScenes(t)
	const ms = int64(time.Millisecond)
	on := func(prefix string, change func(s *span)) func([]*span) []*span {
		return func(spans []*span) []*span {
			change(pick(spans, prefix))
			return spans
		}
	}
	set := func(prefix, key string, value any) func([]*span) []*span {
		return on(prefix, func(s *span) { s.attrs[key] = value })
	}
	add := func(prefix, key string, d float64) func([]*span) []*span {
		return on(prefix, func(s *span) { s.attrs[key] = s.attrs[key].(float64) + d })
	}
	without := func(prefix string) func([]*span) []*span {
		return func(spans []*span) []*span {
			gone := pick(spans, prefix)
			return slices.DeleteFunc(spans, func(s *span) bool { return s == gone })
		}
	}
	for _, c := range []struct {
		what, trace string
		change      func([]*span) []*span
		wrong       string // in one of the messages
	}{
		{"a missing query", "Warm", without("find"), "no child find usertable"},
		{"a missing phase", "Cold", without("auth"), "no child"},
		{"a missing connection, phases without parent", "Cold", without(setupPrefix), "a parent that is not in its trace"},
		{"a missing wait", "Pool exhausted", without(waitName), "no child SELECT usertable"},
		{"a second span", "Warm", func(spans []*span) []*span {
			more := *pick(spans, "find")
			more.id = "0123456789abcdef"
			return append(spans, &more)
		}, "want none there"},
		{"a wait that took no time", "Warm", func(spans []*span) []*span {
			q := pick(spans, "SELECT")
			return append(spans, &span{trace: q.trace, id: "0123456789abcdef", parent: q.parent, name: waitName, kind: "INTERNAL",
				start: q.start, end: q.start, service: serviceName, scope: oteltraceScope})
		}, "not more than"},
		{"a wait that the query does not know of", "Warm", func(spans []*span) []*span {
			q := pick(spans, "SELECT")
			q.start += 1000 * ms
			q.end += 1000 * ms
			pick(spans, "GET").end += 1000 * ms
			next := pick(spans, "find")
			next.start += 1000 * ms
			next.end += 1000 * ms
			return append(spans, &span{trace: q.trace, id: "0123456789abcdef", parent: q.parent, name: waitName, kind: "INTERNAL",
				start: q.start - 1000*ms, end: q.start, service: serviceName, scope: oteltraceScope})
		}, "connprof.queued of"},
		{"the same ID twice", "Warm", func(spans []*span) []*span { return append(spans, pick(spans, "find")) }, "two spans have the ID"},
		{"another name", "Warm", on("find", func(s *span) { s.name = "find ycsb" }), "want the name"},
		{"another kind", "Warm", on("find", func(s *span) { s.kind = "INTERNAL" }), "kind INTERNAL"},
		{"an orphan", "Warm", on("find", func(s *span) { s.parent = "0123456789abcdef" }), "a parent that is not in its trace"},
		{"two roots", "Warm", on("find", func(s *span) { s.parent = "" }), "two roots"},
		{"a query under its connection", "Cold", func(spans []*span) []*span {
			pick(spans, "SELECT").parent = pick(spans, setupPrefix).id
			return spans
		}, "not within its parent"},
		{"a phase beside its connection", "Cold", func(spans []*span) []*span {
			pick(spans, "resolve").parent = pick(spans, "GET").id
			return spans
		}, "resolve"},
		{"a child before its parent", "Cold", on(setupPrefix, func(s *span) { s.start -= 1000 * ms }), "not within its parent"},
		{"a child that outlives its parent", "Warm", on("find", func(s *span) { s.end += 1000 * ms }), "not within its parent"},
		{"an end before the start", "Warm", on("SELECT", func(s *span) { s.end = s.start - 1 }), "ends before it starts"},
		{"phases that overlap", "Cold", func(spans []*span) []*span {
			pick(spans, "greet").end = pick(spans, "tls").start + 1
			return spans
		}, "before greet ended"},
		{"phases in another order", "Cold", func(spans []*span) []*span {
			a, b := pick(spans, "auth"), pick(spans, "setup")
			a.name, b.name = b.name, a.name
			a.attrs, b.attrs = b.attrs, a.attrs
			return spans
		}, "out of order"},
		{"a resolve shorter than the look-up", "Cold", on("resolve", func(s *span) { s.end = s.start + int64(lookupDelay) - 1 }), "less than the 3ms"},
		{"a handshake shorter than the network's delay", "Cold", on("tls", func(s *span) { s.end = s.start + int64(networkDelay) - 1 }), "less than the 4ms"},
		{"a greeting that came too soon", "Cold", func(spans []*span) []*span {
			connect, greet, query := pick(spans, "connect"), pick(spans, "greet"), pick(spans, "SELECT")
			connect.start, connect.end, greet.end = greet.start, greet.start, greet.start
			query.attrs["connprof.phase.connect"], query.attrs["connprof.phase.greet"] = 0.0, 0.0
			return spans
		}, "the greeting was held up"},
		{"a wait shorter than the work", "Pool exhausted", on(waitName, func(s *span) { s.end = s.start + int64(exportingWork) - 1 }), "less than the 50ms"},
		{"a wait that ended before the holder's commit", "Pool exhausted", on(waitName, func(s *span) { s.end = s.start + int64(exportingWork) }), "before the holder's commit"},
		{"a full handshake without the revocation list", "A full TLS handshake", on("tls", func(s *span) { s.end = s.start + 5*ms }), "less than the 34ms"},
		{"a resumed handshake that took as long", "A resumed TLS handshake", func(spans []*span) []*span {
			for _, s := range spans {
				switch {
				case strings.HasPrefix(s.name, "GET"), strings.HasPrefix(s.name, setupPrefix), s.name == "tls":
					s.end += 1000 * ms
				case s.name == "verify" || s.name == "auth" || s.name == "setup" || s.kind == "CLIENT":
					s.start, s.end = s.start+1000*ms, s.end+1000*ms
				}
				for key, v := range s.attrs {
					switch key {
					case "connprof.phase.tls", "connprof.connection.create", "connprof.connection.tls.duration", "connprof.tls.amortized", "connprof.wait":
						s.attrs[key] = v.(float64) + 1
					}
				}
			}
			return spans
		}, "the full one"},
		{"a resumption called full", "A resumed TLS handshake", set("tls", "tls.resumed", false), "tls.resumed"},
		{"no link", "Warm", on("SELECT", func(s *span) { s.links = nil }), "0 links"},
		{"a second link", "Warm", on("SELECT", func(s *span) { s.links = append(s.links, s.links[0]) }), "2 links"},
		{"a link to nowhere", "Warm", on("SELECT", func(s *span) { s.links[0].id = "0123456789abcdef" }), "that no trace has"},
		{"a link to another connection", "Warm", func(spans []*span) []*span {
			pick(spans, "SELECT").links = slices.Clone(pick(spans, "find").links)
			return spans
		}, "linked to"},
		{"a link into its own trace", "The first request on it", on("find", func(s *span) { s.links[0].trace = s.trace }), "no trace has"},
		{"a link from the request", "Warm", on("GET", func(s *span) { s.links = []link{{trace: s.trace, id: s.id}} }), "1 links, want none"},
		{"attributes on a link", "Warm", on("SELECT", func(s *span) { s.links[0].attrs = map[string]any{"x": true} }), "attributes on its link"},
		{"an event", "Warm", on("SELECT", func(s *span) { s.events = []event{{name: "exception"}} }), "want none"},
		{"an error", "Warm", on("SELECT", func(s *span) { s.failed = true }), "in error"},
		{"a login that failed well", "Failed login", on("auth", func(s *span) { s.failed, s.status = false, "" }), "in error: false"},
		{"the server's error text", "Failed login", on(setupPrefix, func(s *span) { s.status += " Access denied for user" }), "status"},
		{"another failed phase", "Failed login", set(setupPrefix, "connprof.create.failed_phase", "setup"), "failed_phase"},
		{"an attribute more", "Warm", set("SELECT", "db.user", "root"), "attribute db.user=root, want none"},
		{"an attribute less", "Warm", on("SELECT", func(s *span) { delete(s.attrs, "connprof.wait") }), "no attribute connprof.wait"},
		{"an attribute of another type", "Warm", set("SELECT", "server.port", "3306"), "server.port"},
		{"a literal in the text", "Warm", set("SELECT", "db.query.text", "SELECT field0 FROM usertable WHERE _id = 'user8'"), "db.query.text"},
		{"a new connection called reused", "Cold", set("SELECT", "connprof.connection.reused", true), "reused"},
		{"another index", "Warm", set("SELECT", "connprof.query.index", int64(3)), "query 3 on its connection, after query 1"},
		{"another connection's number", "Warm", set("SELECT", "connprof.connection.id", "4711"), "on connection 4711"},
		{"an idle time longer than there was", "Warm", add("SELECT", "connprof.connection.idle", 1), "idle for"},
		{"an idle time shorter than was waited", "Warm", set("SELECT", "connprof.connection.idle", 0.001), "want at least"},
		{"another phase on the query than on the connection", "Cold", add("SELECT", "connprof.phase.auth", 0.001), "connprof.phase.auth is"},
		{"another create on the query than on the connection", "Cold", add("SELECT", "connprof.connection.create", 0.001), "connprof.connection.create is"},
		{"another TLS time on the query than on the connection", "Cold", add("SELECT", "connprof.connection.tls.duration", 0.001), "connprof.connection.tls.duration is"},
		{"a share of TLS that is not one", "Ten queries on one connection", set("SELECT", "connprof.tls.amortized", 0.001), "amortized"},
		{"a first response after the end", "Warm", add("SELECT", "connprof.query.first_response", 1), "first response after"},
		{"more queued than waited", "Warm", add("SELECT", "connprof.queued", 1), "queued for"},
		{"a wait that leaves out the create", "Cold", add("SELECT", "connprof.wait", 0.001), "its connection took"},
		{"a login's wait that is longer than the login", "Cold", add("auth", "connprof.auth.wait", 1), "auth: waited"},
		{"a missing choice of a server", "A client that has just started", without(selectionName), "no child find"},
		{"a choice of a server shorter than it can be", "A client that has just started", on(selectionName, func(s *span) { s.start = s.end - 11*ms }), "held up"},
		{"a choice of a server that the command does not know of", "A client that has just started", set("find", "connprof.query.selection", 0.001), "connprof.query.selection"},
		{"a choice of a server that is called a wait for the pool", "A client that has just started", on(selectionName, func(s *span) { s.name = waitName }), "want the name"},
		{"one try where there were two", "After an idle kill", set("SELECT", "connprof.query.attempts", int64(1)), "attempts"},
		{"another service", "Warm", on("SELECT", func(s *span) { s.service = "unknown_service" }), "service"},
		{"another scope", "Warm", on("SELECT", func(s *span) { s.scope = serviceName }), "scope"},
		{"something dropped", "Warm", on("SELECT", func(s *span) { s.dropped = 1 }), "were dropped"},
		{"a request longer than its client waited", "Warm", on("GET", func(s *span) { s.end += 1000 * ms }), "longer than its client waited"},
	} {
		t.Run(c.what, func(t *testing.T) {
			wrong := check(p, c.trace, c.change)
			if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, c.wrong) }) {
				t.Errorf("want one with %q of\n%s", c.wrong, strings.Join(wrong, "\n"))
			}
		})
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// A store has the traces: a jaeger.
type store interface {
	// fetch returns the spans of a trace, and waits a while until there are n.
	fetch(ctx context.Context, traceID string, n int) ([]*span, error)
	// warnings are what the store finds fault with in a trace.
	warnings(ctx context.Context, traceID string) ([]string, error)
	// url is where a person finds a trace.
	url(traceID string) string
}

// page prints traces and what is wrong with them.
type page struct {
	w     io.Writer
	store store
	check bool
	*checker

	failures int
	seen     []seen
	markdown strings.Builder
}

// seen is a sight and the spans that came.
type seen struct {
	sight
	spans []*span
}

// scene runs a scene and prints what came of it. An error means that there is nothing to print.
func (p *page) scene(ctx context.Context, s *setup, run scene) error {
	sights, err := run(ctx, s)
	if err != nil {
		return err
	}
	if err := s.tracing.flush(ctx); err != nil {
		return err
	}
	for i, v := range sights {
		if v.trace == "" { // a link of the next one leads to it
			next := sights[i+1].trace
			spans, err := p.store.fetch(ctx, next, s.tracing.sent.of(next))
			if err != nil {
				return err
			}
			if v.trace = linked(spans); v.trace == "" {
				return fmt.Errorf("%s: trace %s links to no other", sights[i+1].name, next)
			}
		}
		sent := s.tracing.sent.of(v.trace)
		got, err := p.store.fetch(ctx, v.trace, sent)
		if err != nil {
			return err
		}
		warnings, err := p.store.warnings(ctx, v.trace)
		if err != nil {
			return err
		}
		p.sight(v, got, sent, warnings)
	}
	return nil
}

// linked is the trace that the last span with a link links to, "" if there is none.
func linked(spans []*span) string {
	var last *span
	for _, s := range spans {
		if len(s.links) > 0 && (last == nil || s.start > last.start) {
			last = s
		}
	}
	if last == nil {
		return ""
	}
	return last.links[0].trace
}

// sight prints a trace and, if that is asked for, what is wrong with it.
func (p *page) sight(v sight, got []*span, sent int, warnings []string) {
	fmt.Fprintf(p.w, "\n%s\n%s\n%s\n\n", v.name, wrap(v.says, 110), p.store.url(v.trace))
	fmt.Fprintf(&p.markdown, "### %s\n\n%s\n\n", v.name, wrap(v.says, 140))
	root, err := tree(got)
	if err == nil {
		drawn := waterfall(root)
		fmt.Fprint(p.w, drawn)
		fmt.Fprintf(&p.markdown, "```\n%s```\n\n", drawn)
	}
	if !p.check {
		return
	}
	p.wrong = nil
	if err != nil {
		p.fail("%v", err)
	} else {
		p.judge(v, root)
	}
	if len(got) != sent {
		p.fail("%d spans were sent, %d arrived", sent, len(got))
	}
	for _, w := range warnings {
		p.fail("Jaeger warns of %s", w)
	}
	p.seen = append(p.seen, seen{v, got})
	if len(p.wrong) == 0 {
		fmt.Fprintln(p.w, "ok")
		return
	}
	p.failures++
	for _, w := range p.wrong {
		fmt.Fprintf(p.w, "WRONG %s\n", w)
	}
}

// total prints the last lines.
func (p *page) total() {
	fmt.Fprintf(p.w, "\n%d spans and %d attributes compared", p.spans, p.attributes)
	if p.chance > 0 {
		fmt.Fprintf(p.w, "; the machine was busy: %d waits longer than %v that nobody put there", p.chance, waitThreshold)
	}
	fmt.Fprintf(p.w, "\njaeger: %d traces checked, %d failures\n", len(p.seen), p.failures)
}

// readmeMark stands in README.md before the traces.
const readmeMark = "<!-- written by -readme: what is below this line is replaced -->\n"

// writeReadme puts the traces into the file, below readmeMark.
func (p *page) writeReadme(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	above, _, ok := strings.Cut(string(content), readmeMark)
	if !ok {
		return fmt.Errorf("%s: it has no line %q", path, strings.TrimSpace(readmeMark))
	}
	text := above + readmeMark + "\n" + strings.TrimRight(p.markdown.String(), "\n") + "\n"
	return os.WriteFile(path, []byte(text), 0o644)
}

// wrap breaks text into lines of at most n characters.
func wrap(text string, n int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > n:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

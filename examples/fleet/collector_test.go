package main

import (
	"context"
	"strings"
	"testing"
)

func TestACollectorThatDoesNotStartIsAnErrorWithItsWords(t *testing.T) {
	if c, err := startCollector(context.Background(), "/no/such/program"); err == nil {
		c.stop()
		t.Fatal("it started")
	}
	// The Go tool ends at once, and says that it does not know the file it is given for a command.
	_, err := startCollector(context.Background(), "go")
	if err == nil || !strings.Contains(err.Error(), collectorConfig) {
		t.Fatal(err)
	}
}

func TestALogKeepsItsEnd(t *testing.T) {
	l := newLog("ready")
	for _, s := range []string{"re", strings.Repeat("x", logSize), "rea", "dy", "."} {
		if _, err := l.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.seen:
			if s != "dy" && s != "." {
				t.Errorf("ready is seen after %q", s)
			}
		default:
			if s == "." {
				t.Error("ready is not seen")
			}
		}
	}
	if got := l.tail(); len(got) != logSize || !strings.HasSuffix(got, "xready.") {
		t.Errorf("%d bytes, the end is %q", len(got), got[len(got)-10:])
	}
}

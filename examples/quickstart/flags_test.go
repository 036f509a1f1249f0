package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestBadFlagsAreExplained(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"an unknown flag", []string{"-nosuch"}, "flag provided but not defined: -nosuch"},
		{"an argument", []string{"mysql"}, `quickstart: unexpected argument "mysql"`},
		{"no iterations", []string{"-iterations", "0"}, "quickstart: -iterations 0: must be at least 1"},
		{"a number that is none", []string{"-iterations", "many"}, `invalid value "many" for flag -iterations`},
		{"a round trip without a unit", []string{"-rtt", "10"}, `invalid value "10" for flag -rtt`},
		{"a negative round trip", []string{"-rtt", "-1ms"}, "quickstart: -rtt -1ms: must not be negative"},
		{"a round trip longer than the time-out", []string{"-rtt", "6s"}, "quickstart: -rtt 6s: must be less than -timeout, which is 5s"},
		{"no time at all", []string{"-timeout", "0s"}, "quickstart: -timeout 0s: must be more than 0"},
		{"a collector without a port", []string{"-otlp", "localhost"}, `quickstart: -otlp "localhost": must be host:port`},
		{"a DSN that is none", []string{"-mysql", "localhost:3306"}, "quickstart: mysql: -mysql: invalid DSN"},
		{"a DSN with an unknown TLS setting", []string{"-mysql", "u:p@tcp(h:1)/d?tls=maybe"}, "quickstart: mysql: -mysql: "},
		{"a URI that is none", []string{"-mongo", "localhost:27017"}, "quickstart: mongodb: -mongo: a URI begins with mongodb://"},
		{"a URI with a bad option", []string{"-mongo", "mongodb://u:secret@h:1/?connectTimeoutMS=soon"}, "quickstart: mongodb: -mongo: "},
		{"a socket over the emulated network", []string{"-rtt", "1ms", "-mysql", "u:p@unix(/s)/d"}, "the emulated network carries tcp, not unix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(context.Background(), test.args, &stdout, &stderr); code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("stderr is %q, want %q in it", &stderr, test.want)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout is not empty: %q", &stdout)
			}
			if strings.Contains(stderr.String(), "secret") {
				t.Errorf("the password is shown: %q", &stderr)
			}
		})
	}
}

func TestHelpIsNoError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"-help"}, &stdout, &stderr); code != exitOK || !strings.Contains(stderr.String(), "-iterations") {
		t.Errorf("exit code %d, stderr %q", code, &stderr)
	}
}

func TestNamespaceOfAURI(t *testing.T) {
	for uri, want := range map[string][2]string{
		"mongodb://h":                   {"connprof_quickstart", "none"},
		"mongodb://h/?tls=true":         {"connprof_quickstart", "none"},
		"mongodb://u:p@h:1,h:2/shop":    {"shop", "none"},
		"mongodb://h/shop.orders?w=1":   {"shop", "orders"},
		"mongodb+srv://h/shop%2Dx?w=1":  {"shop-x", "none"},
		"mongodb://h/shop.orders.old?x": {"shop", "orders.old"},
	} {
		database, collection := namespace(uri)
		if database != want[0] || collection != want[1] {
			t.Errorf("namespace(%q) = %q, %q, want %q", uri, database, collection, want)
		}
	}
}

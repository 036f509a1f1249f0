package main

import (
	"context"
	"runtime/debug"
	"strings"
	"time"

	"github.com/connprof/connprof/profiler"
)

// variant is one database with TLS off or on, and what was measured of it.
type variant struct {
	system string // OpenTelemetry's db.system.name: "mysql", "mongodb"
	tls    bool
	driver string
	server string // "embedded", or the user's address
	asks   string // the query
	trips  string // what it takes, in a sentence; "" to say nothing

	tlsOptional bool // the client falls back to plaintext: tls is what happened

	// open builds a client that reports to p. It is the first part of what is timed.
	open func(p *profiler.Profiler) (client, error)
	// openPrepared is the same, but the client prepares each query first; nil where there is no such thing.
	openPrepared func(p *profiler.Profiler) (client, error)

	fresh profiler.Profiler // of the fresh clients
	warm  profiler.Profiler // of the reused client

	build, first, total, reused, prepared []time.Duration
}

// client is a database client, which makes its connection when it is first asked.
type client interface {
	// query asks for row i and reads it.
	query(ctx context.Context, i int) error
	// close ends the client and its connections; ctx bounds a farewell that takes a round trip.
	close(ctx context.Context)
}

// name is "mysql, TLS on".
func (v *variant) name() string {
	if v.tls {
		return v.system + ", TLS on"
	}
	return v.system + ", TLS off"
}

// driverVersion is the last two elements of the module's path and its version.
func driverVersion(module string) string {
	name := strings.TrimPrefix(module, "github.com/")
	name = strings.TrimPrefix(name, "go.mongodb.org/")
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return strings.TrimSuffix(name, "/v2") + " " + d.Version
		}
	}
	return name
}

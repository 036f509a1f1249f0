// Package compose holds the tests of what connprof's spans look like beside those of other instrumentations: github.com/XSAM/otelsql around
// our Connector, otelpgx in a configuration of ours, otelmongo's command monitor among ours. With oteltrace's QueryAttributes theirs are the
// query spans and carry what we know.
package compose

// Package app stands for an application with a database: a store of documents, and tests and benchmarks that look after its connections as
// an application's own would. They run on a server inside the process:
//
//	go test -bench . ./app
package app

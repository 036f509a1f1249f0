// Package servertest runs a database server as the private child process of a test process: who runs it, where its files are, how it
// ends. What kind of server it is, its caller knows (mariadbtest, postgrestest).
//
// Nothing is left behind: no process, no folder, no goroutine while the server runs, so that goleak may be used in any test. That holds
// for a test process that dies, too: a small shell stands between the two processes and waits for either the order to stop or the end of
// the pipe that only the test process holds (PR_SET_PDEATHSIG would follow the thread that started the server, and tests end threads:
// go.dev/issue/27505). Where the tests run as root the server does not.
package servertest

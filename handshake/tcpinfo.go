package handshake

import "github.com/connprof/connprof/profiler"

// tcpFacts asks the kernel twice: after connect and at hand-over.
type tcpFacts struct{ info profiler.TCPInfo }

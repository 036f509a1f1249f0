// Package goid answers one question: on which goroutine is this? Two callbacks of a driver that run on one goroutine belong together,
// where nothing else ties them. It costs microseconds and grows with the depth of the stack: it is for the rare steps of a connection's
// making, not for its use.
package goid

import (
	"runtime"
	"sync"
)

// buffers keeps Get from allocating: runtime.Stack makes its argument escape.
var buffers = sync.Pool{New: func() any { return new([64]byte) }}

// Get returns the number of the calling goroutine, as a traceback shows it: "goroutine 18 [running]:". The runtime never gives a number
// to a second goroutine. It returns 0, which no goroutine has, if the runtime should ever print something else.
func Get() uint64 {
	buf := buffers.Get().(*[64]byte)
	n := runtime.Stack(buf[:], false)
	id := parse(buf[:n])
	buffers.Put(buf)
	return id
}

const prefix = "goroutine "

func parse(line []byte) uint64 {
	if len(line) <= len(prefix) || string(line[:len(prefix)]) != prefix {
		return 0
	}
	var id uint64
	for i, c := range line[len(prefix):] {
		switch {
		case c >= '0' && c <= '9' && id <= (1<<64-10)/10:
			id = id*10 + uint64(c-'0')
		case c == ' ' && i > 0:
			return id
		default:
			return 0
		}
	}
	return 0
}

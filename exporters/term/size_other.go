//go:build !unix

package term

// terminalSize knows no terminals here: the output is plain.
func terminalSize(uintptr) (columns int, ok bool) { return 0, false }

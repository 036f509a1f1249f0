//go:build unix

package term

import "golang.org/x/sys/unix"

// terminalSize asks for the window's size, which only a terminal has.
func terminalSize(fd uintptr) (columns int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}

// Package wan answers one question: what would this client measure if its server were a network round trip away?
//
// A [Link] is an emulated network inside the process: two user-space TCP/IP stacks (gVisor's netstack) joined by a cable
// that holds every packet for half the round-trip time. It needs no root, no kernel module and no other process. Because
// the SYN travels the cable as well, connect takes a round trip, which a relay in front of a loopback port gets wrong:
// there the kernel accepts at once.
//
//	link, err := wan.New(10 * time.Millisecond)
//	addr, err := link.Forward("127.0.0.1:3306") // 10.77.0.2:3306, seen through the link
//	conn, err := link.DialContext(ctx, "tcp", addr)
//
// What it does not do: loss, jitter, bandwidth limits, IPv6, UDP, names. Its connections have no file descriptor, so
// there is no TCP_INFO and no syscall.Conn.
package wan

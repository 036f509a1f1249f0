// Package accuracy answers one question: how far are connprof's numbers from what a packet capture shows?
//
// "make accuracy" runs its one test that measures. In a network namespace of its own, the test starts MariaDB and PostgreSQL, makes
// connections with TLS to each under tcpdump, and compares each connection, found by its client's port, with what tshark says of the
// packets. It does so on loopback and then through a TUN device whose other end is a process that hands every packet back after half a
// round-trip time: real kernel TCP on both sides.
//
// The capture knows nothing of connprof: packet times are the kernel's, and what a packet holds is told by tshark, which decrypts TLS with
// the keys that crypto/tls logs.
//
// The test needs Linux, root, /dev/net/tun, tcpdump and tshark (scripts/install-accuracy-tools.sh), and skips with the reason where
// something is missing. Its bounds are for an idle machine.
package accuracy

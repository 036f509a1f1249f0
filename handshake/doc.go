// Package handshake dials database connections and watches their making on the wire, from below TLS. It answers one question: which phase
// of a create took how long? It knows nothing of queries, pools or drivers.
//
// A Dialer goes where a driver asks for a dial function. What it returns is the net.Conn that the driver, and crypto/tls, read and write:
// calls pass through as they are, and are looked at until the connection is handed over. Nothing is decrypted, no tls.Config is touched,
// nothing is sent, no deadline is set, no goroutine is started. Afterwards a Write costs one atomic load, a Read two.
//
// # What passive watching can and cannot know
//
//	                        known                                          not known
//	name look-up            begin, end, name, number of answers            with a user's own dialer that shows nothing: it is one
//	                                                                       Connect, marked opaque; in the C library's resolver how
//	                                                                       many questions it asked
//	connect                 each attempt's address, times, error;          the network's part on loopback: most of it is the
//	                        the SYN's round trip and retransmissions       scheduler (see TCPInfo.RTT)
//	                        (Linux)
//	server's first word     when it came; MySQL's version; whose           whether the wait was the server's or a proxy's before it; who
//	                        protocol it was, or the number of MySQL's      is there if it says nothing (an HTTP server that waits for a
//	                        error in its place                             line), or if the driver reads one byte of it (pgx's request
//	                                                                       for TLS): then only that it was not the protocol's
//	TLS begin               the end of the call before the ClientHello's   when a driver decided on TLS before that
//	                        write; the write itself (HelloWritten)
//	TLS end                 1.3: the client's Finished went out;           whether the server took the client's certificate: in 1.3
//	                        up to 1.2: the last Finished came in           it says so later, see below
//	TLS facts               version, cipher suite, group taken, groups     what is encrypted: in 1.3 the size of the server's
//	                        and keys offered, resumption offered and       certificate but for an upper bound, and which protocol ALPN
//	                        taken, HelloRetryRequest, server name,         chose; why an encrypted alert was sent; behind Encrypted
//	                        ALPN offered, sizes; up to 1.2 that of         Client Hello the true server name
//	                        the server's certificate
//	session tickets         in 1.2; in 1.3 once one was used               in 1.3 whether any came: they look like data
//	TLS inside a dialer     that it is there; with a *tls.Conn its         its time apart from the dial's
//	                        version, cipher suite, resumption
//	verification            the gap between TLS and the first word         what fills it: OCSP, channel binding, the scheduler
//	login                   its exchanges, and their time apart from       under TLS, what each was for; where it ended, if the driver
//	                        the client's own computing                     then sends statements whose number is not known:
//	                                                                       AuthSetup
//	login in the clear      MySQL's: where it was accepted, the plugin,    where other protocols' ended, unless the driver tells
//	                        whether caching_sha2_password went fast or     (Accepted); under TLS nothing of all this, whatever plugin
//	                        full, an error's number and SQLSTATE;          MySQL's greeting names: a server may ask for another
//	                        PostgreSQL's: the method, SCRAM's
//	                        iterations, an error's SQLSTATE
//	failure                 the phase it came in, the wire's own error     under TLS, whether the server's last words were an answer
//	                                                                       or a farewell
//	the answer to a query   nothing                                        TLS 1.3 tickets come in the same reads: response times
//	                                                                       are taken from the driver's calls
//
// A refusal of the client's certificate reaches a TLS 1.3 client after its handshake has ended well (RFC 8446 §4.4.2.4). It is taken for one,
// and the failed phase is TLS, if two things hold: the first record of the server after the client's Finished has the size of an encrypted
// alert, and the client's flight held a Certificate. A server that closes in order at that very place, before any answer, looks the same.
//
// # Times
//
// A phase begins at the entry of a call and ends at the return of one. What the other side and the network did lies between the return of a
// Write and the return of the Read that answers it: the kernel's and the scheduler's delays are part of it, 10 to 30 µs each way on an idle
// machine and milliseconds on a busy one. A Read that returns while a Write is under way is looked at after that Write.
//
// # Limits
//
// Of what is said in the clear the numbers and names above are kept, and until the create ends the first 16 bytes of the other side and the
// first 40 of one packet of MySQL's login: never a user, an answer to a challenge, a password, a key, or the text of an error.
//
// What is no TLS and no known preamble passes through, and its exchanges count as the login's. Bytes that begin like TLS and go on otherwise
// end the watching: the rest of the create is Other, or the failed phase is TLS. The answer never depends on how the bytes were cut into
// reads and writes. At most one hello of a handshake is held at a time (64 KiB), 64 exchanges, and 256 KiB of reads that overlap a write.
package handshake

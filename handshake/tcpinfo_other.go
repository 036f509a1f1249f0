//go:build !linux

package handshake

import "net"

func (f *tcpFacts) connected(net.Conn) {}
func (f *tcpFacts) settled(net.Conn)   {}

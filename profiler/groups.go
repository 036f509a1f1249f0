package profiler

import (
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
)

// Groups is a set of key exchange groups (RFC 8446 §4.2.7) that fits into two bytes: it knows those that clients offer nowadays, and of
// the rest that there are some. The zero Groups is empty.
type Groups uint16

// groupIDs are the members, a bit each, as IANA numbers them (TLS Supported Groups).
var groupIDs = [...]tls.CurveID{
	4588, 4587, 4589, // X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024
	29, 23, 24, 25, 30, // X25519, P-256, P-384, P-521, X448
	512, 513, 514, // ML-KEM alone
	256, 257, 258, // ffdhe2048, 3072, 4096 (RFC 7919)
	25497, // X25519Kyber768Draft00
}

const otherGroups Groups = 1 << len(groupIDs)

// With is g and id.
func (g Groups) With(id tls.CurveID) Groups {
	if i := slices.Index(groupIDs[:], id); i >= 0 {
		return g | 1<<i
	}
	return g | otherGroups
}

// Has reports whether id is one of g; false for a group that only counts among the others.
func (g Groups) Has(id tls.CurveID) bool {
	i := slices.Index(groupIDs[:], id)
	return i >= 0 && g&(1<<i) != 0
}

// String lists the names, in no order of preference, "other" last for those that have none; "" for no group.
func (g Groups) String() string {
	var names []string
	for i, id := range groupIDs {
		if g&(1<<i) != 0 {
			names = append(names, groupName(id))
		}
	}
	if g&otherGroups != 0 {
		names = append(names, "other")
	}
	return strings.Join(names, ", ")
}

func groupName(id tls.CurveID) string {
	if s := id.String(); !strings.HasPrefix(s, "CurveID(") { // crypto/tls has no name for it
		return s
	}
	return "0x" + strconv.FormatUint(uint64(id), 16)
}

package handshake

import (
	"slices"
	"strings"
	"testing"

	"github.com/connprof/connprof/profiler"
)

// loginAs is a HandshakeResponse41 with the capabilities caps.
func loginAs(caps uint32, rest ...byte) []byte {
	caps |= clientProtocol41
	fixed := append([]byte{byte(caps), byte(caps >> 8), byte(caps >> 16), byte(caps >> 24)}, make([]byte, 4+1+23)...)
	return mysqlPacket(1, append(fixed, rest...)...)
}

func TestAMySQLLoginShowsItsPluginAlone(t *testing.T) {
	const all = clientPluginAuth | clientSecureConnection
	answer := strings.Repeat("s", 20)
	long := strings.Repeat("s", 300)
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"an answer of 20 bytes", loginAs(all, []byte("app\x00\x14"+answer+"caching_sha2_password\x00")...), "caching_sha2_password"},
		{"with a database", loginAs(all|clientConnectWithDB, []byte("app\x00\x14"+answer+"db\x00mysql_native_password\x00attributes")...),
			"mysql_native_password"},
		{"no answer", loginAs(all, []byte("app\x00\x00caching_sha2_password\x00")...), "caching_sha2_password"},
		{"no answer, with a database", loginAs(all|clientConnectWithDB, []byte("app\x00\x00db\x00parsec\x00")...), "parsec"},
		{"a length in one byte", loginAs(all|clientPluginLenenc, []byte("app\x00\x14"+answer+"dialog\x00")...), "dialog"},
		{"a length in three bytes", loginAs(all|clientPluginLenenc, []byte("app\x00\xfc\x2c\x01"+long+"dialog\x00")...), "dialog"},
		{"a longer one", loginAs(all|clientPluginLenenc, []byte("app\x00\xfd\x2c\x01\x00"+long+"dialog\x00")...), ""},
		{"an answer that ends in NUL", loginAs(clientPluginAuth, []byte("app\x00"+answer+"\x00dialog\x00")...), "dialog"},
		{"no plugins", loginAs(clientSecureConnection, []byte("app\x00\x14"+answer+"dialog\x00")...), ""},
		{"a name without end", loginAs(all, []byte("app\x00\x00"+strings.Repeat("n", 100))...), ""},
		{"a name cut off", loginAs(all, []byte("app\x00\x00caching_sha2")...), ""},
		{"no user", loginAs(all, []byte("app")...), ""},
	} {
		for size := 1; size <= len(tt.b); size++ {
			var l loginResponse
			for b := tt.b; len(b) > 0; b = b[min(size, len(b)):] {
				l.wrote(b[:min(size, len(b))])
			}
			if l.plugin() != tt.want || strings.Contains(string(l.name[:]), "sss") {
				t.Fatalf("%s in pieces of %d: %q, keeps %q", tt.name, size, l.plugin(), l.name)
			}
		}
	}
}

func TestAMySQLLoginInTheClearShowsItsWay(t *testing.T) {
	sha2 := loginAs(clientPluginAuth|clientSecureConnection, []byte("app\x00\x00caching_sha2_password\x00")...)
	native := loginAs(clientPluginAuth|clientSecureConnection, []byte("app\x00\x00mysql_native_password\x00")...)
	more := func(b ...byte) []byte { return mysqlPacket(2, append([]byte{1}, b...)...) }
	change := func(plugin string) []byte {
		return mysqlPacket(2, append([]byte{0xfe}, plugin+"\x00challenge of 20 bytes\x00"...)...)
	}
	for _, tt := range []struct {
		name      string
		login     []byte
		b         []byte
		method    profiler.AuthMethod
		path      profiler.AuthPath
		err       string
		ok, whole bool
	}{
		{"nothing yet", native, nil, profiler.AuthUnknown, 0, "", false, false},
		{"OK at once", native, mysqlOK(2), profiler.AuthNativePassword, 0, "", true, true},
		{"an error at once", native, mysqlError(2), profiler.AuthNativePassword, 0, "1045 28000", false, true},
		{"half an error", native, mysqlError(2)[:8], profiler.AuthNativePassword, 0, "", false, false},
		{"an error without an SQLSTATE", native, mysqlPacket(2, append([]byte{0xff, 0x15, 0x04}, "Access denied"...)...),
			profiler.AuthNativePassword, 0, "1045 ", false, true},
		{"caching_sha2_password, fast", sha2, slices.Concat(more(3), mysqlOK(3)), profiler.AuthCachingSHA2, profiler.AuthFast, "", true, true},
		{"caching_sha2_password, full with the server's key", sha2,
			slices.Concat(more(4), more([]byte("-----BEGIN PUBLIC KEY-----"+strings.Repeat("k", 400))...), mysqlOK(7)),
			profiler.AuthCachingSHA2, profiler.AuthFull, "", true, true},
		{"caching_sha2_password, data that is no way", sha2, slices.Concat(more(3, 1), mysqlOK(3)), profiler.AuthCachingSHA2, 0, "", true, true},
		{"another plugin", native, slices.Concat(change("client_ed25519"), mysqlOK(4)), profiler.AuthEd25519, 0, "", true, true},
		{"another plugin, and that one's way", native, slices.Concat(change("caching_sha2_password"), more(3), mysqlOK(4)),
			profiler.AuthCachingSHA2, profiler.AuthFast, "", true, true},
		{"a plugin that has no such way", native, slices.Concat(change("dialog"), more(4), mysqlOK(4)), profiler.AuthDialog, 0, "", true, true},
		{"a plugin of one's own", native, slices.Concat(change("acme_tokens"), mysqlOK(4)), profiler.AuthOther, 0, "", true, true},
		{"the method before 4.1", native, slices.Concat(mysqlPacket(2, 0xfe), mysqlOK(4)), profiler.AuthOther, 0, "", true, true},
		{"an empty packet", native, slices.Concat(mysqlPacket(2), mysqlOK(3)), profiler.AuthNativePassword, 0, "", true, true},
	} {
		for size := 1; size <= max(1, len(tt.b)); size++ {
			var p mysqlPackets
			p.login.wrote(tt.login)
			ok := false
			for b := tt.b; len(b) > 0; b = b[min(size, len(b)):] {
				ok = p.accepted(b[:min(size, len(b))]) || ok
			}
			err := p.err.String()
			if err != "" {
				err += " " + p.err.SQLState()
			}
			if p.method() != tt.method || p.path != tt.path || err != tt.err || ok != tt.ok || p.over != tt.whole {
				t.Fatalf("%s in pieces of %d: by %v, path %v, error %q, accepted %v, over %v", tt.name, size, p.method(), p.path, err, ok, p.over)
			}
		}
	}
}

// FuzzMySQLPackets: no bytes make it panic, and every split finds the OK at the same byte and the same facts.
func FuzzMySQLPackets(f *testing.F) {
	login := loginAs(clientPluginAuth|clientSecureConnection|clientConnectWithDB, []byte("app\x00\x02xxdb\x00caching_sha2_password\x00")...)
	f.Add(login, mysqlOK(2), uint8(1))
	f.Add(login, slices.Concat(mysqlPacket(2, 0xfe, 'x', 0), mysqlPacket(4, 1, 4), mysqlOK(5)), uint8(5))
	f.Add(login, slices.Concat(mysqlPacket(4, 1, 4), mysqlPacket(6, 1, '-'), mysqlOK(5)), uint8(5))
	f.Add(login, mysqlError(2), uint8(3))
	f.Fuzz(func(t *testing.T, login, b []byte, size uint8) {
		var whole, pieces mysqlPackets
		whole.login.wrote(login)
		want, got := whole.accepted(b), false
		for left := login; len(left) > 0; left = left[min(max(1, int(size)), len(left)):] {
			pieces.login.wrote(left[:min(max(1, int(size)), len(left))])
		}
		for left := b; len(left) > 0; left = left[min(max(1, int(size)), len(left)):] {
			got = pieces.accepted(left[:min(max(1, int(size)), len(left))]) || got
		}
		if got != want || whole.over != pieces.over || whole.method() != pieces.method() || whole.path != pieces.path || whole.err != pieces.err {
			t.Fatalf("whole %v %+v, in pieces of %d %v %+v", want, whole, size, got, pieces)
		}
	})
}

package oteltrace

import (
	"strings"
	"testing"
)

func TestTextsWithoutLiterals(t *testing.T) {
	for _, tt := range []struct {
		d          dialect
		text, want string
	}{
		{mysqlSQL, "SELECT  a,\n\tb FROM t1 WHERE c = ? AND d > 5", "SELECT a, b FROM t1 WHERE c = ? AND d > ?"},
		{postgresSQL, "SELECT $1::int, a[1:2], 'x'::text", "SELECT $1::int, a[?:?], ?::text"},
		{mysqlSQL, "SELECT 'it''s', \"bob\", 0x1F, -1.5e-3, .5, TRUE, NULL, b'101', _utf8'x', N'y'",
			"SELECT ?, ?, ?, -?, ?, ?, NULL, ?, ?, ?"},
		{postgresSQL, `SELECT "bob", E'it\'s', $$a 'b'$$, $t$c $$ d$t$, U&'x' FROM "T"`, `SELECT "bob", ?, ?, ?, ? FROM "T"`},
		{mysqlSQL, "SELECT 1 -- bob\n, 2 # bob\n, 5--1 /* bob */ FROM `t`", "SELECT ? , ? , ?--? FROM `t`"},
		{postgresSQL, "SELECT 1 --bob\n, a #> b /* x /* bob */ bob */ FROM t", "SELECT ? , a #> b FROM t"},
		{mysqlSQL, `SELECT 'C:\\' FROM t`, "SELECT ? FROM t"},
		// What a backslash before a quote means is up to the server.
		{mysqlSQL, `SELECT a FROM t WHERE b = 'x\' OR c = 'bob' AND d = 'y'`, "SELECT a FROM t WHERE b = ..."},
		{postgresSQL, `SELECT a FROM t WHERE b = 'x\' OR c = 'bob'`, "SELECT a FROM t WHERE b = ..."},
		{mysqlSQL, "SELECT 'bob", "SELECT ..."},
		{mysqlSQL, "SELECT /*! 'bob' */ 1", "SELECT ..."},
		{mysqlSQL, "SELECT 1 /* bob", "SELECT ? ..."},
		{postgresSQL, "SELECT $$bob", "SELECT ..."},
		{otherSQL, "SELECT 1 --bob\n", "SELECT ? ..."},
		{otherSQL, "SELECT q'[it's]', 'bob'", "SELECT ..."},
		{otherSQL, "SELECT '''it's''', 'bob'", "SELECT ..."},
		{otherSQL, "SELECT $a$bob$a$", "SELECT ..."},
		{otherSQL, "SELECT [it's] FROM t WHERE a = 'bob'", "SELECT ..."},
		{otherSQL, "SELECT [name] FROM t WHERE a = @p1 AND b = :b AND c = 'x'", "SELECT [name] FROM t WHERE a = @p1 AND b = :b AND c = ?"},
		{mysqlSQL, "SELECT 'a' " + strings.Repeat("x", maxText)[:maxText-11], "SELECT ? " + strings.Repeat("x", maxText-11) + "..."},
		// Each server's own idea of where a string, a name or a comment ends.
		{postgresSQL, "SELECT 1$a$ bob x$a$ FROM t", "SELECT ?? FROM t"},
		{otherSQL, `SELECT a FROM t WHERE b = "bob"`, "SELECT a FROM t WHERE b = ?"},
		{otherSQL, "SELECT [a]]'b] FROM t WHERE a = 'bob'", "SELECT ..."},
		{otherSQL, "SELECT 1 -- x\r it's\n, 'bob'", "SELECT ? ..."},
		{otherSQL, "SELECT 1 -- it's\r\n, 'bob'", "SELECT ? , ?"},
		{mysqlSQL, "SELECT 1 --\x7fit's\n, 'bob'", "SELECT ? , ?"},
		{mysqlSQL, "SELECT 1 --\u00a0it's\n, 'bob'", "SELECT ? ..."},
		{mysqlSQL, "SELECT \x81` FROM t WHERE a = 'bob' AND \x81` = 1", "SELECT ..."},
		{mysqlSQL, "SELECT `\x81`` FROM t WHERE a = 'bob' AND `b` = 1", "SELECT ..."},
		{mysqlSQL, "", ""},
		{postgresSQL, "SELECT 'ä', ü\xff", "SELECT ?, ü"},
	} {
		if got := withoutLiterals(tt.d, tt.text); got != tt.want {
			t.Errorf("%s\n got %q\nwant %q", tt.text, got, tt.want)
		}
	}
}

// quoting is how one setting of one server reads quotes; the secret is in a string by each of them.
func FuzzLiteralsNeverLeave(f *testing.F) {
	f.Add("SELECT a FROM t WHERE b = ", " AND c = 1 -- x\n", uint8(0))
	f.Add("SELECT '", `\' OR `, uint8(1))
	f.Add("INSERT INTO t VALUES (E'\\'', ", ")", uint8(2))
	f.Add("$a$ ' $a$ --", "\n", uint8(0))
	const secret = "8642013579"
	f.Fuzz(func(t *testing.T, before, after string, d uint8) {
		text := before + secret + after // a number: it is a literal wherever it begins a token
		got := withoutLiterals(dialect(d%3), text)
		r := summarise(dialect(d%3), text)
		if len(r.summary) > maxSummary {
			t.Errorf("a summary of %d bytes", len(r.summary))
		}
		if n := len(before); n > 0 && (isWord(before[n-1]) || strings.ContainsAny(before, "`\"[$")) {
			return // part of a name, or inside a quoted one
		}
		if strings.Contains(got, secret) || strings.Contains(r.summary, secret) {
			t.Errorf("%q shows %q and %q", text, got, r.summary)
		}
	})
}

// Under each setting of a server, what that server reads as a string must not be shown.
func FuzzStringsNeverLeave(f *testing.F) {
	f.Add(`SELECT 'a\' OR x = 'b' AND y = 'c'`)
	f.Add(`SELECT "a" 'b''c' # d`)
	f.Add(`SELECT 'a' /* ' */ 'b' -- '` + "\n'c'")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxText || strings.Contains(text, "\x01") || strings.Contains(text, "/*!") || strings.Contains(text, "/*M!") {
			return
		}
		got := withoutLiterals(mysqlSQL, text)
		for _, escapes := range []bool{true, false} {
			masked, ok := mask(text, escapes)
			if !ok {
				continue // the server refuses it
			}
			if again := withoutLiterals(mysqlSQL, masked); strings.ContainsRune(again, '\x01') || !strings.HasPrefix(again, strings.TrimSuffix(got, "...")) {
				t.Errorf("escapes %v: %q shows %q, with strings masked %q", escapes, text, got, again)
			}
		}
	})
}

// mask replaces what MySQL reads inside strings by \x01, with backslashes as escapes or not.
func mask(text string, escapes bool) (string, bool) {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\'' || c == '"' || c == '`':
			for i++; ; i++ {
				if i >= len(b) {
					return "", false
				}
				if b[i] == '\\' && escapes && c != '`' {
					if i+1 >= len(b) {
						return "", false
					}
					b[i], b[i+1] = 1, 1
					i++
					continue
				}
				if b[i] == c {
					if i+1 < len(b) && b[i+1] == c {
						if c != '`' {
							b[i], b[i+1] = 1, 1
						}
						i++
						continue
					}
					break
				}
				if c != '`' {
					b[i] = 1
				}
			}
		case c == '#', c == '-' && i+2 <= len(b)-1 && b[i+1] == '-' && b[i+2] <= ' ', c == '-' && i+2 == len(b) && b[i+1] == '-':
			for i < len(b) && b[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(b) && b[i+1] == '*':
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return "", false
			}
			i += end + 3
		}
	}
	return string(b), true
}

package oteltrace

import (
	"strings"
	"unicode/utf8"
)

// A dialect is what the lexer must know of a database's SQL to tell what is quoted.
type dialect uint8

const (
	otherSQL dialect = iota // any: what means different things in different ones ends the reading
	mysqlSQL
	postgresSQL
)

func dialectOf(system string) dialect {
	switch system {
	case "mysql", "mariadb":
		return mysqlSQL
	case "postgresql":
		return postgresSQL
	}
	return otherSQL
}

type tokenKind uint8

const (
	endOfText  tokenKind = iota
	unsure               // from here on the text means one thing or another: nothing of it may be shown
	blank                // white space or a comment
	word                 // a keyword or a name
	quotedName           // a name in quotes
	literal              // a string or a number, or TRUE or FALSE
	parameter            // a placeholder
	symbol               // any other character
)

type token struct {
	kind tokenKind
	text string
	gap  bool // blanks before it
}

// A lexer cuts a statement into tokens. It exists so that literals never leave the process: where settings of a server that it can't know
// decide what is inside a string (backslashes, comments), it gives up at that point instead of guessing.
type lexer struct {
	s string
	i int
	d dialect
}

// next skips blanks.
func (l *lexer) next() token {
	gap := false
	for {
		t := l.token()
		if t.kind != blank {
			t.gap = gap
			return t
		}
		gap = true
	}
}

func (l *lexer) at(i int) byte {
	if i < len(l.s) {
		return l.s[i]
	}
	return 0
}

// take is a token of kind k up to i.
func (l *lexer) take(k tokenKind, i int) token {
	i = min(i, len(l.s))
	t := token{kind: k, text: l.s[l.i:i]}
	l.i = i
	return t
}

func (l *lexer) token() token {
	if l.i >= len(l.s) {
		return token{}
	}
	c, after := l.s[l.i], l.at(l.i+1)
	switch {
	case c == ' ' || c >= '\t' && c <= '\r':
		i := l.i + 1
		for i < len(l.s) && (l.s[i] == ' ' || l.s[i] >= '\t' && l.s[i] <= '\r') {
			i++
		}
		return l.take(blank, i)
	case c == '-' && after == '-':
		return l.dashes()
	case c == '#' && l.d == mysqlSQL:
		return l.line()
	case c == '#' && l.d == otherSQL, c == '/' && after == '/' && l.d == otherSQL:
		return l.take(unsure, len(l.s))
	case c == '/' && after == '*':
		return l.comment()
	case c == '\'', c == '"', c == '`' && l.d != postgresSQL:
		return l.quoted(c, false)
	case c == '[' && l.d == otherSQL:
		return l.bracket()
	case c == '$' && l.d != mysqlSQL:
		return l.dollar()
	case c == '?':
		return l.take(parameter, l.i+1)
	case isDigit(c), c == '.' && isDigit(after):
		return l.number()
	case isWord(c):
		return l.word()
	}
	return l.take(symbol, l.i+1)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord says that c may stand in a name; bytes of a longer UTF-8 sequence may.
func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

func (l *lexer) word() token {
	i := l.i + 1
	for i < len(l.s) && isWord(l.s[i]) {
		i++
	}
	if l.foreign(i) {
		return l.take(unsure, len(l.s))
	}
	if i < len(l.s) && l.s[i] == '\'' {
		if t, ok := l.prefixed(i); ok {
			return t
		}
	}
	if l.d == postgresSQL && l.at(i) == '&' && i == l.i+1 && l.s[l.i]|0x20 == 'u' && (l.at(i+1) == '\'' || l.at(i+1) == '"') {
		l.i = i + 1 // U&'…' and U&"…"
		return l.quoted(l.s[l.i], false)
	}
	t := l.take(word, i)
	if strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false") {
		t.kind = literal
	}
	return t
}

// foreign says that the text up to i is not UTF-8: in GBK or Shift JIS, a letter's second byte may be a backtick. PostgreSQL knows no such
// encoding.
func (l *lexer) foreign(i int) bool { return l.d != postgresSQL && !utf8.ValidString(l.s[l.i:i]) }

// prefixed is a string whose quote, at i, follows a word at once: E'…', N'…', X'…', MySQL's _utf8'…'.
func (l *lexer) prefixed(i int) (token, bool) {
	p := strings.ToLower(l.s[l.i:i])
	switch p {
	case "e", "n", "b", "x":
	case "q", "nq", "r", "b'", "rb", "br": // Oracle's and BigQuery's have rules of their own
		if l.d == otherSQL {
			return l.take(unsure, len(l.s)), true
		}
	default:
		if p[0] != '_' {
			return token{}, false
		}
	}
	l.i = i
	return l.quoted('\'', p == "e" && l.d == postgresSQL), true
}

// quoted is what is in the quotes q. A backslash may be an escape or not: MySQL's sql_mode and PostgreSQL's standard_conforming_strings
// decide (E'…' is certain). Both readings are followed, and must agree on where the string ends. What is in double quotes is a name for sure in
// PostgreSQL only: SQLite takes it for a string where it knows no such name.
func (l *lexer) quoted(q byte, escapes bool) token {
	kind := literal
	if q == '`' || q == '"' && l.d == postgresSQL {
		kind = quotedName
	}
	if l.d == otherSQL && l.at(l.i+1) == q && l.at(l.i+2) == q { // three: BigQuery's, or an empty string's neighbour
		return l.take(unsure, len(l.s))
	}
	slash := q != '`' && !(q == '"' && l.d == postgresSQL)
	escaped := false
	for i := l.i + 1; i < len(l.s); i++ {
		c := l.s[i]
		switch {
		case escaped:
			if escaped = false; c == q && !escapes { // the end, if the backslash is none
				return l.take(unsure, len(l.s))
			}
		case c == '\\' && slash:
			escaped = true
		case c == q:
			if l.at(i+1) != q {
				if kind == quotedName && l.foreign(i) {
					return l.take(unsure, len(l.s))
				}
				return l.take(kind, i+1)
			}
			i++
		}
	}
	return l.take(unsure, len(l.s))
}

// bracket is a name in other dialects than those that are known, or a list: certain only without quotes inside, doubled brackets among them.
func (l *lexer) bracket() token {
	n := strings.IndexByte(l.s[l.i:], ']')
	if n < 0 || l.at(l.i+n+1) == ']' || strings.ContainsAny(l.s[l.i+1:l.i+n], "'\"`[$-/#") {
		return l.take(unsure, len(l.s))
	}
	if name := l.s[l.i+1 : l.i+n]; n > 1 && !isDigit(name[0]) && strings.IndexFunc(name, func(r rune) bool { return r < 0x80 && !isWord(byte(r)) }) < 0 {
		return l.take(quotedName, l.i+n+1)
	}
	return l.take(symbol, l.i+1)
}

// dollar is PostgreSQL's $1 or $tag$…$tag$.
func (l *lexer) dollar() token {
	i := l.i + 1
	for i < len(l.s) && isWord(l.s[i]) && l.s[i] != '$' {
		i++
	}
	if l.at(i) != '$' {
		if i == l.i+1 {
			return l.take(symbol, i)
		}
		return l.take(parameter, i)
	}
	if l.d == otherSQL {
		return l.take(unsure, len(l.s))
	}
	if isDigit(l.at(l.i + 1)) { // $1$: no tag begins with a digit
		return l.take(unsure, len(l.s))
	}
	tag := l.s[l.i : i+1]
	end := strings.Index(l.s[i+1:], tag)
	if end < 0 {
		return l.take(unsure, len(l.s))
	}
	return l.take(literal, i+1+end+len(tag))
}

func (l *lexer) number() token {
	i := l.i
	hex := l.s[i] == '0' && l.at(i+1)|0x20 == 'x'
	for i < len(l.s) {
		c := l.s[i]
		if !hex && c|0x20 == 'e' && (l.at(i+1) == '+' || l.at(i+1) == '-') && isDigit(l.at(i+2)) {
			i += 2
			continue
		}
		if !isWord(c) && c != '.' || c == '$' && l.d != mysqlSQL { // in PostgreSQL, $tag$ may follow
			break
		}
		i++
	}
	return l.take(literal, i)
}

// dashes are a comment, in MySQL only before a blank or a control character.
func (l *lexer) dashes() token {
	c := l.at(l.i + 2)
	if l.d == postgresSQL || c <= ' ' || c == 0x7f && l.d == mysqlSQL {
		return l.line()
	}
	if l.d == mysqlSQL && c < 0x80 { // beyond, the connection's character set tells what is a blank
		return l.take(symbol, l.i+1)
	}
	return l.take(unsure, len(l.s))
}

// line is a comment up to the line's end, which a carriage return is in PostgreSQL, not in MySQL and SQLite, and unknown elsewhere.
func (l *lexer) line() token {
	i := l.i
	for i < len(l.s) && l.s[i] != '\n' && (l.s[i] != '\r' || l.d == mysqlSQL) {
		i++
	}
	if l.d == otherSQL && l.at(i) == '\r' && l.at(i+1) != '\n' {
		return l.take(unsure, len(l.s))
	}
	return l.take(blank, i)
}

// comment is nested in PostgreSQL, and in MySQL code if it begins with ! (or M! for MariaDB).
func (l *lexer) comment() token {
	if l.d != postgresSQL && (l.at(l.i+2) == '!' || l.at(l.i+2) == 'M' && l.at(l.i+3) == '!') {
		return l.take(unsure, len(l.s))
	}
	depth := 0
	for i := l.i; i+1 < len(l.s); i++ {
		switch {
		case l.s[i] == '/' && l.s[i+1] == '*':
			if depth > 0 && l.d == otherSQL {
				return l.take(unsure, len(l.s))
			}
			if depth == 0 || l.d == postgresSQL {
				depth++
				i++
			}
		case l.s[i] == '*' && l.s[i+1] == '/':
			if depth--; depth == 0 {
				return l.take(blank, i+2)
			}
			i++
		}
	}
	return l.take(unsure, len(l.s))
}

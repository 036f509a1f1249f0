package oteltrace

import "strings"

// summary is what a statement's text says about it: what is done, and to which tables, in the order of the text.
type summary struct {
	summary               string
	operation, collection string // where there is exactly one
}

// verbs begin a statement. What they act on follows at once (target), as a list after FROM, or is none of a table's.
var verbs = map[string]verb{
	"SELECT": {}, "INSERT": {target: true}, "UPDATE": {target: true}, "DELETE": {}, "REPLACE": {target: true}, "MERGE": {target: true},
	"CALL": {target: true}, "EXEC": {target: true}, "EXECUTE": {target: true}, "TRUNCATE": {target: true}, "COPY": {target: true},
	"LOCK": {target: true}, "ANALYZE": {target: true}, "VACUUM": {target: true}, "OPTIMIZE": {target: true}, "DESCRIBE": {target: true},
	"CREATE": {object: true}, "ALTER": {object: true}, "DROP": {object: true},
	"BEGIN": {alone: true}, "START": {alone: true}, "COMMIT": {alone: true}, "ROLLBACK": {alone: true}, "SAVEPOINT": {alone: true},
	"RELEASE": {alone: true}, "SET": {alone: true}, "RESET": {alone: true}, "SHOW": {alone: true}, "USE": {alone: true}, "DO": {alone: true},
	"VALUES": {alone: true}, "PREPARE": {alone: true}, "DEALLOCATE": {alone: true}, "DECLARE": {alone: true}, "FETCH": {alone: true},
	"CLOSE": {alone: true}, "LISTEN": {alone: true}, "UNLISTEN": {alone: true}, "NOTIFY": {alone: true}, "GRANT": {alone: true},
	"REVOKE": {alone: true}, "DISCARD": {alone: true}, "KILL": {alone: true}, "FLUSH": {alone: true}, "PRAGMA": {alone: true},
	"EXPLAIN": {}, "WITH": {silent: true}, "TABLE": {target: true},
}

type verb struct {
	target bool // a name follows
	object bool // CREATE TABLE name: the kind of object, then a name
	alone  bool // nothing more of the statement counts
	silent bool // not an operation by itself
}

// objects are what CREATE, ALTER and DROP say that they act on.
var objects = map[string]bool{
	"TABLE": true, "INDEX": true, "VIEW": true, "SCHEMA": true, "DATABASE": true, "SEQUENCE": true, "FUNCTION": true, "PROCEDURE": true,
	"TRIGGER": true, "TYPE": true, "EXTENSION": true, "USER": true, "ROLE": true,
}

// fillers stand between a verb and its name.
var fillers = map[string]bool{
	"INTO": true, "FROM": true, "ONLY": true, "TABLE": true, "IGNORE": true, "LOW_PRIORITY": true, "HIGH_PRIORITY": true, "DELAYED": true,
	"QUICK": true, "IF": true, "NOT": true, "EXISTS": true, "LATERAL": true, "OVERWRITE": true, "CONCURRENTLY": true,
}

// enders end a list of tables.
var enders = map[string]bool{
	"WHERE": true, "GROUP": true, "ORDER": true, "HAVING": true, "LIMIT": true, "UNION": true, "EXCEPT": true, "INTERSECT": true, "SET": true,
	"WINDOW": true, "OFFSET": true, "FETCH": true, "FOR": true, "RETURNING": true, "VALUES": true,
}

// A keyword is a word that means something here, with its name in capitals.
type keyword struct {
	name                  string
	verb                  verb
	isVerb                bool
	object, filler, ender bool
}

// keywords holds them all, so that a word is looked up once.
var keywords = func() map[string]*keyword {
	all := map[string]*keyword{}
	of := func(name string) *keyword {
		if all[name] == nil {
			all[name] = &keyword{name: name}
		}
		return all[name]
	}
	for name, v := range verbs {
		k := of(name)
		k.verb, k.isVerb = v, true
	}
	for name := range objects {
		of(name).object = true
	}
	for name := range fillers {
		of(name).filler = true
	}
	for name := range enders {
		of(name).ender = true
	}
	for _, name := range []string{"FROM", "USING", "JOIN", "STRAIGHT_JOIN", "DISTINCT"} {
		of(name)
	}
	return all
}()

var noKeyword = new(keyword)

const longestKeyword = 13 // STRAIGHT_JOIN

func keywordOf(word string) *keyword {
	if len(word) > longestKeyword {
		return noKeyword
	}
	var up [longestKeyword]byte
	for i := range len(word) {
		c := word[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		up[i] = c
	}
	if k := keywords[string(up[:len(word)])]; k != nil {
		return k
	}
	return noKeyword
}

// maxDepth bounds the parentheses within which tables are looked for.
const maxDepth = 16

// summariser reads tokens. What is known of each open parenthesis is in levels.
type summariser struct {
	out         strings.Builder
	full        bool
	ops, names  int
	first, name string
	start       bool // a statement begins here
	depth       int
	levels      [maxDepth + 1]struct {
		verb string // of the (sub)query, "" in an expression
		list bool   // between FROM and what ends its list: a comma is followed by another table
	}
	want   bool // a name is expected
	object bool // CREATE and the like: the kind of object is expected
	skip   bool // the rest of the statement does not count
	prev   string
}

// summarise follows "Generating a summary of the query text" of the semantic conventions: operations and targets, in the order in which
// they appear. A text that begins with no known verb has none, because it may be anything.
func summarise(d dialect, text string) summary {
	s := summariser{start: true}
	l := lexer{s: text, d: d}
	t := l.next()
	for t.kind != endOfText && t.kind != unsure && !s.full {
		following := l.next()
		switch t.kind {
		case word, quotedName:
			name := unquote(t)
			for following.kind == symbol && following.text == "." { // schema.table
				part := l.next()
				if part.kind != word && part.kind != quotedName { // a name whose end can't be told is none
					name, following = "", part
					break
				}
				name += "." + unquote(part)
				following = l.next()
			}
			s.word(t, name, following)
		case symbol:
			s.symbol(t.text)
		default:
			s.want, s.start, s.prev = false, false, ""
		}
		t = following
	}
	r := summary{summary: s.out.String()}
	if s.ops == 1 && !s.full { // what is behind the bound was not read
		r.operation = s.first
		if s.names == 1 {
			r.collection = s.name
		}
	}
	return r
}

func unquote(t token) string {
	if t.kind == quotedName && len(t.text) >= 2 {
		return t.text[1 : len(t.text)-1]
	}
	return t.text
}

func (s *summariser) symbol(text string) {
	at := &s.levels[min(s.depth, maxDepth)]
	switch text {
	case "(":
		s.want = false
		s.depth++
		s.levels[min(s.depth, maxDepth)].verb, s.levels[min(s.depth, maxDepth)].list = "", false
	case ")":
		s.depth = max(s.depth-1, 0)
	case ",":
		s.want = at.list && !s.skip
	case ";":
		s.depth, s.skip, s.want, s.object = 0, false, false, false
		s.levels[0].verb, s.levels[0].list = "", false
		s.start, s.prev = true, ""
		return
	}
	s.start, s.prev = false, text
}

func (s *summariser) word(t token, name string, following token) {
	k := noKeyword
	if t.kind == word && name == t.text {
		k = keywordOf(name)
	}
	s.meaning(k, name, following)
	s.start, s.prev = false, k.name
}

func (s *summariser) meaning(k *keyword, name string, following token) {
	if s.skip {
		return
	}
	at := &s.levels[min(s.depth, maxDepth)]
	if s.object && k != noKeyword {
		if k.object {
			s.object, s.want = false, true
			s.append(k.name)
		}
		return
	}
	if k.isVerb && s.begins(k.name, following) {
		v := k.verb
		s.want = false
		at.verb, at.list = k.name, false
		if v.silent {
			return
		}
		s.operation(k.name)
		s.want, s.object, s.skip = v.target, v.object, v.alone
		return
	}
	if s.want {
		if k.filler {
			return
		}
		s.want = false
		s.target(name)
		return
	}
	switch {
	case k.name == "FROM" && (at.verb == "SELECT" || at.verb == "DELETE") && s.prev != "DISTINCT",
		k.name == "USING" && at.verb == "DELETE", k.name == "FROM" && at.verb == "UPDATE":
		s.want, at.list = true, true
	case k.name == "JOIN" || k.name == "STRAIGHT_JOIN":
		s.want = true
	case k.ender:
		at.list = false
	}
}

// begins says that a verb is one here, and not a word of another clause (FOR UPDATE, ON DELETE) or a function's name.
func (s *summariser) begins(up string, following token) bool {
	call := following.kind == symbol && following.text == "("
	switch {
	case s.start:
		return true
	case up == "SELECT":
		return true
	case s.prev == "EXPLAIN" || s.prev == "ANALYZE" && s.first == "EXPLAIN":
		return up != "TABLE"
	case s.prev == "(" || s.prev == ")":
		return !call && (up == "INSERT" || up == "UPDATE" || up == "DELETE" || up == "MERGE")
	}
	return false
}

func (s *summariser) operation(name string) {
	if s.ops++; s.ops == 1 {
		s.first = name
	}
	s.append(name)
}

func (s *summariser) target(name string) {
	if name == "" {
		s.names = 2 // whatever it is, it is not one that can be told
		return
	}
	name = strings.ToValidUTF8(name, "")
	switch {
	case s.names == 0:
		s.name, s.names = name, 1
	case s.name != name:
		s.names = 2
	}
	s.append(name)
}

// append adds a part whole or not at all, and then nothing more.
func (s *summariser) append(part string) {
	if s.out.Len()+1+len(part) > maxSummary {
		s.full = true
		return
	}
	if s.out.Len() > 0 {
		s.out.WriteByte(' ')
	}
	s.out.WriteString(part)
}

package oteltrace

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"

	"github.com/connprof/connprof/profiler"
)

const (
	// maxText bounds what is read of a statement; what is shown of it is no longer, but for "..." at its end.
	maxText = 4096
	// maxKept bounds the statements that are kept read, in number and length.
	maxKept       = 256
	maxKeptLength = 2048
	// maxSummary is the bound of db.query.summary in the semantic conventions.
	maxSummary = 255
)

// statement is what is said of an operation's text (or of its kind, if it has none).
type statement struct {
	text    string // its first maxText bytes, or a command's name: the key
	of      string // a command's collection: the key, too
	dialect dialect
	name    string                    // the span's, "" if the text doesn't tell
	attrs   []attribute.KeyValue      // db.query.summary, db.operation.name, db.collection.name, as far as known
	clean   func() attribute.KeyValue // db.query.text, without literals; made when it is asked for
}

// statements keeps the statements that were read last, by a hash of their text: programs run the same few again and again.
type statements struct {
	kept     [maxKept]atomic.Pointer[statement]
	commands [maxKept]atomic.Pointer[statement]
}

var statementSeed = maphash.MakeSeed()

func (ss *statements) of(system, text string) *statement {
	text = text[:min(len(text), maxText)]
	d := dialectOf(system)
	if len(text) > maxKeptLength {
		return readStatement(d, text)
	}
	slot := &ss.kept[maphash.String(statementSeed, text)%maxKept]
	if st := slot.Load(); st != nil && st.text == text && st.dialect == d {
		return st
	}
	st := readStatement(d, strings.Clone(text))
	slot.Store(st)
	return st
}

// ofCommand is what is said of an operation that has a name, on a collection if that is known.
func (ss *statements) ofCommand(name, collection string) *statement {
	h := maphash.String(statementSeed, name)
	if collection != "" {
		h += 31 * maphash.String(statementSeed, collection)
	}
	slot := &ss.commands[h%maxKept]
	if st := slot.Load(); st != nil && st.text == name && st.of == collection {
		return st
	}
	st := &statement{text: name, of: collection, attrs: []attribute.KeyValue{operationName(name)}}
	if collection != "" {
		st.name = name + " " + collection
		st.attrs = append(st.attrs, collectionName(collection))
	}
	slot.Store(st)
	return st
}

func readStatement(d dialect, text string) *statement {
	st := &statement{text: text, dialect: d}
	st.clean = sync.OnceValue(func() attribute.KeyValue { return queryText(withoutLiterals(d, text)) })
	r := summarise(d, text)
	st.name = r.summary
	if r.summary != "" {
		st.attrs = append(st.attrs, querySummary(r.summary))
	}
	if r.operation != "" {
		st.attrs = append(st.attrs, operationName(r.operation))
	}
	if r.collection != "" {
		st.attrs = append(st.attrs, collectionName(r.collection))
	}
	return st
}

// The operations whose kind says all.
var byKind = map[profiler.OpKind]*statement{
	profiler.OpBegin:    kindStatement("BEGIN"),
	profiler.OpCommit:   kindStatement("COMMIT"),
	profiler.OpRollback: kindStatement("ROLLBACK"),
	profiler.OpBatch:    kindStatement("BATCH"),
	profiler.OpCopy:     kindStatement("COPY"),
}

func kindStatement(name string) *statement {
	return &statement{name: name, attrs: []attribute.KeyValue{querySummary(name), operationName(name)}}
}

// withoutLiterals is text with ? for each literal and a blank for each comment. Where it can't be told what is a literal, it ends in "...".
func withoutLiterals(d dialect, text string) string {
	var b strings.Builder
	b.Grow(len(text))
	l := lexer{s: text, d: d}
	for {
		t := l.next()
		if t.gap && b.Len() > 0 && t.kind != endOfText {
			b.WriteByte(' ')
		}
		switch t.kind {
		case endOfText:
			if len(text) == maxText {
				b.WriteString("...")
			}
			return strings.ToValidUTF8(b.String(), "")
		case unsure:
			b.WriteString("...")
			return strings.ToValidUTF8(b.String(), "")
		case literal:
			b.WriteByte('?')
		default:
			b.WriteString(t.text)
		}
	}
}

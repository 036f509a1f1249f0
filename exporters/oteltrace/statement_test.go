package oteltrace

import (
	"fmt"
	"strings"
	"testing"
)

func TestStatementsAreReadOnceAndKeptInBoundedMemory(t *testing.T) {
	var ss statements
	a := ss.of("mysql", `SELECT "x" FROM t`)
	find := ss.ofCommand("find", "items")
	if ss.of("mysql", `SELECT "x" FROM t`) != a || ss.ofCommand("find", "items") != find {
		t.Error("the same statement was read twice")
	}
	if b := ss.of("postgresql", `SELECT "x" FROM t`); b.clean().Value.AsString() == a.clean().Value.AsString() {
		t.Error("two dialects share what was read in one of them")
	}
	if ss.ofCommand("find", "items").name != "find items" || ss.ofCommand("find", "").name != "" || ss.ofCommand("items", "find").name != "items find" {
		t.Error("commands are mixed up")
	}
	for i := range 10_000 {
		ss.of("mysql", fmt.Sprintf("SELECT %d FROM t", i))
		ss.ofCommand("find", fmt.Sprint("c", i))
	}
	n := 0
	for i := range ss.kept {
		if st := ss.kept[i].Load(); st != nil {
			n += len(st.text)
		}
	}
	if n > maxKept*len("SELECT 10000 FROM t") {
		t.Errorf("%d bytes kept", n)
	}
	long := "SELECT " + strings.Repeat("1, ", maxKeptLength)
	if once := ss.of("mysql", long); ss.of("mysql", long) == once {
		t.Error("a long statement was kept")
	}
	if n := testing.AllocsPerRun(100, func() { ss.of("mysql", "SELECT 9999 FROM t"); ss.ofCommand("find", "c9999") }); n != 0 {
		t.Errorf("%g allocations for statements that are known", n)
	}
}

func BenchmarkStatement(b *testing.B) {
	const text = "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.state = ? AND o.total > 100"
	b.Run("known", func(b *testing.B) {
		var ss statements
		for b.Loop() {
			ss.of("mysql", text)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readStatement(mysqlSQL, text)
		}
	})
}

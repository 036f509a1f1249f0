package embedded

import (
	"slices"

	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
)

// keyedTable is a read-only table that finds a row by its primary key in a map. go-mysql-server's own in-memory table
// sorts all its rows for each such look-up, which at 1,000 rows costs milliseconds and would drown what TLS costs.
type keyedTable struct {
	schema sql.PrimaryKeySchema // the key is its first column, a string
	rows   []sql.Row            // in order of the key
	byKey  map[string]sql.Row
}

var (
	_ memory.MemTable           = (*keyedTable)(nil)
	_ sql.IndexAddressableTable = (*keyedTable)(nil)
	_ sql.IndexedTable          = (*keyedTable)(nil)
	_ sql.PrimaryKeyTable       = (*keyedTable)(nil)
)

func newKeyedTable(schema sql.PrimaryKeySchema, rows []sql.Row) *keyedTable {
	t := &keyedTable{schema: schema, rows: rows, byKey: make(map[string]sql.Row, len(rows))}
	for _, r := range rows {
		t.byKey[r[0].(string)] = r
	}
	return t
}

func (t *keyedTable) Name() string                           { return Table }
func (t *keyedTable) String() string                         { return Table }
func (t *keyedTable) Schema() sql.Schema                     { return t.schema.Schema }
func (t *keyedTable) PrimaryKeySchema() sql.PrimaryKeySchema { return t.schema }
func (t *keyedTable) Collation() sql.CollationID             { return sql.Collation_Default }
func (t *keyedTable) IgnoreSessionData() bool                { return true }
func (t *keyedTable) UnderlyingTable() *memory.Table         { return nil } // not asked for where session data is ignored
func (t *keyedTable) PreciseMatch() bool                     { return false }
func (t *keyedTable) GetIndexes(*sql.Context) ([]sql.Index, error) {
	key := t.schema.Schema[0]
	column := expression.NewGetFieldWithTable(0, 0, key.Type, Database, Table, key.Name, key.Nullable)
	return []sql.Index{&memory.Index{
		DB: Database, TableName: Table, Exprs: []sql.Expression{column}, Name: "PRIMARY", Unique: true,
	}}, nil
}

// slice is the part of the table that a query reads: the row with the key, or all in either order.
type slice struct {
	key     string
	all     bool
	reverse bool
}

func (s slice) Key() []byte { return []byte(s.key) }

func (t *keyedTable) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return sql.PartitionsToPartitionIter(slice{all: true}), nil
}

func (t *keyedTable) IndexedAccess(*sql.Context, sql.IndexLookup) sql.IndexedTable { return t }

// LookupPartitions narrows the rows down where the look-up is for one key. Since PreciseMatch is false, the engine applies
// the query's conditions to the rows again, so all rows are a right answer to any other look-up; but their order must be
// the index's, because the engine may have left out a sort for it.
func (t *keyedTable) LookupPartitions(_ *sql.Context, lookup sql.IndexLookup) (sql.PartitionIter, error) {
	if ranges, ok := lookup.Ranges.(sql.MySQLRangeCollection); ok && len(ranges) == 1 && len(ranges[0]) == 1 {
		if key, ok := onlyKey(ranges[0][0]); ok {
			return sql.PartitionsToPartitionIter(slice{key: key}), nil
		}
	}
	return sql.PartitionsToPartitionIter(slice{all: true, reverse: lookup.IsReverse}), nil
}

// onlyKey returns the one key in the range from just below it to just above it, if the range is one.
func onlyKey(r sql.MySQLRangeColumnExpr) (string, bool) {
	from, isBelow := r.LowerBound.(sql.Below)
	to, isAbove := r.UpperBound.(sql.Above)
	if !isBelow || !isAbove {
		return "", false
	}
	first, isString := from.Key.(string)
	last, alsoString := to.Key.(string)
	return first, isString && alsoString && first == last
}

func (t *keyedTable) PartitionRows(_ *sql.Context, partition sql.Partition) (sql.RowIter, error) {
	part := partition.(slice)
	if part.all {
		rows := t.rows
		if part.reverse {
			rows = slices.Clone(rows)
			slices.Reverse(rows)
		}
		return sql.RowsToRowIter(rows...), nil
	}
	if r, ok := t.byKey[part.key]; ok {
		return sql.RowsToRowIter(r), nil
	}
	return sql.RowsToRowIter(), nil
}

package mongotest

import (
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// store is the documents and the open cursors. The zero store is empty.
type store struct {
	mu          sync.Mutex // guards what follows
	collections map[string]*collection
	cursors     map[int64]*cursor
	lastCursor  int64
}

type collection struct {
	docs []bson.Raw          // in the order of inserting; never changed in place
	ids  map[string]struct{} // the _ids, as type and value
}

// insert adds the documents in order. A duplicate _id is a write error, as in an acknowledged reply of MongoDB.
func (st *store) insert(r request) (bson.D, error) {
	ns, err := namespace(r.body, "insert")
	if err != nil {
		return nil, err
	}
	docs := r.docs["documents"]
	if array, ok := r.body.Lookup("documents").ArrayOK(); ok {
		values, err := array.Values()
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			if doc, ok := v.DocumentOK(); ok {
				docs = append(docs, doc)
			}
		}
	}
	ordered, given := r.body.Lookup("ordered").BooleanOK()
	ordered = ordered || !given
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.collections == nil {
		st.collections = map[string]*collection{}
	}
	c := st.collections[ns]
	if c == nil {
		c = &collection{ids: map[string]struct{}{}}
		st.collections[ns] = c
	}
	n, failed := 0, bson.A{}
	for i, doc := range docs {
		if c.add(doc) {
			n++
			continue
		}
		failed = append(failed, bson.D{{Key: "index", Value: int32(i)}, {Key: "code", Value: int32(CodeDuplicateKey)},
			{Key: "errmsg", Value: "E11000 duplicate key error collection: " + ns + " index: _id_"}})
		if ordered {
			break
		}
	}
	reply := bson.D{{Key: "n", Value: int32(n)}}
	if len(failed) > 0 {
		reply = append(reply, bson.E{Key: "writeErrors", Value: failed})
	}
	return reply, nil
}

// add keeps doc, giving it an _id if it has none, and returns false if there is one with its _id.
func (c *collection) add(doc bson.Raw) bool {
	id, err := doc.LookupErr("_id")
	if err != nil {
		id = bson.RawValue{Type: bson.TypeObjectID}
		oid := bson.NewObjectID()
		id.Value = oid[:]
		var d bson.D
		if bson.Unmarshal(doc, &d) == nil {
			doc, _ = bson.Marshal(append(bson.D{{Key: "_id", Value: oid}}, d...))
		}
	}
	key := string(id.Type) + string(id.Value)
	if _, dup := c.ids[key]; dup {
		return false
	}
	c.ids[key] = struct{}{}
	c.docs = append(c.docs, doc)
	return true
}

// find knows filter (equality), skip, limit, batchSize and singleBatch, and refuses what else changes a result.
func (st *store) find(cmd bson.Raw) (bson.D, error) {
	ns, err := namespace(cmd, "find")
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"sort", "projection", "tailable", "awaitData", "min", "max", "returnKey", "showRecordId"} {
		if set(cmd.Lookup(field)) {
			return nil, notImplemented(field)
		}
	}
	filter, _ := cmd.Lookup("filter").DocumentOK()
	docs, err := match(st.all(ns), filter)
	if err != nil {
		return nil, err
	}
	limit := number(cmd, "limit", 0)
	single, _ := cmd.Lookup("singleBatch").BooleanOK()
	docs = window(docs, number(cmd, "skip", 0), max(limit, -limit))
	return st.first(ns, docs, number(cmd, "batchSize", defaultBatch), single || limit < 0), nil
}

func (st *store) all(ns string) []bson.Raw {
	st.mu.Lock()
	defer st.mu.Unlock()
	if c := st.collections[ns]; c != nil {
		return c.docs
	}
	return nil
}

// namespace is "db.collection" of a command whose first field names the collection.
func namespace(cmd bson.Raw, field string) (string, error) {
	db, ok := cmd.Lookup("$db").StringValueOK()
	coll, ok2 := cmd.Lookup(field).StringValueOK()
	if !ok || !ok2 {
		return "", badValue("collection or $db is missing")
	}
	return db + "." + coll, nil
}

func number(cmd bson.Raw, field string, missing int64) int64 {
	if n, ok := cmd.Lookup(field).AsInt64OK(); ok {
		return n
	}
	return missing
}

// set reports whether an option is given and is more than false or an empty document.
func set(v bson.RawValue) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	if d, ok := v.DocumentOK(); ok {
		return len(d) > 5
	}
	return v.Type != 0
}

func window(docs []bson.Raw, skip, limit int64) []bson.Raw {
	docs = docs[min(max(skip, 0), int64(len(docs))):]
	if limit > 0 {
		docs = docs[:min(limit, int64(len(docs)))]
	}
	return docs
}

// match keeps the documents whose top-level fields equal those of filter in type and value.
func match(docs []bson.Raw, filter bson.Raw) ([]bson.Raw, error) {
	if len(filter) == 0 {
		return docs, nil
	}
	want, err := filter.Elements()
	if err != nil {
		return nil, err
	}
	for _, e := range want {
		sub, _ := e.Value().DocumentOK()
		op, _ := sub.IndexErr(0)
		if strings.ContainsAny(e.Key(), "$.") || (len(op) > 0 && strings.HasPrefix(op.Key(), "$")) {
			return nil, notImplemented("a filter other than equality of top-level fields")
		}
	}
	return slices.DeleteFunc(slices.Clone(docs), func(doc bson.Raw) bool {
		for _, e := range want {
			if v, err := doc.LookupErr(e.Key()); err != nil || !v.Equal(e.Value()) {
				return true
			}
		}
		return false
	}), nil
}

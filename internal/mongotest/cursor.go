package mongotest

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// defaultBatch is the size of a first batch if the client names none (MongoDB's).
const defaultBatch = 101

// cursor is what a find or an aggregate has not delivered yet.
type cursor struct {
	ns   string
	docs []bson.Raw
}

// first is the reply with the first batch, and opens a cursor if there is more.
func (st *store) first(ns string, docs []bson.Raw, batch int64, single bool) bson.D {
	batch = min(max(batch, 0), int64(len(docs)))
	head, rest := docs[:batch], docs[batch:]
	st.mu.Lock()
	defer st.mu.Unlock()
	var id int64
	if len(rest) > 0 && !single {
		st.lastCursor++
		id = st.lastCursor
		if st.cursors == nil {
			st.cursors = map[int64]*cursor{}
		}
		st.cursors[id] = &cursor{ns, rest}
	}
	return batchReply("firstBatch", id, ns, head)
}

// getMore is the next batch, by default all that is left.
func (st *store) getMore(cmd bson.Raw) (bson.D, error) {
	id, _ := cmd.Lookup("getMore").AsInt64OK()
	st.mu.Lock()
	defer st.mu.Unlock()
	cur := st.cursors[id]
	if cur == nil {
		return nil, &Error{Code: CodeCursorNotFound, Name: "CursorNotFound", Message: fmt.Sprintf("cursor id %d not found", id)}
	}
	n := int64(len(cur.docs))
	if size := number(cmd, "batchSize", 0); size > 0 {
		n = min(n, size)
	}
	head := cur.docs[:n]
	if cur.docs = cur.docs[n:]; len(cur.docs) == 0 {
		delete(st.cursors, id)
		id = 0
	}
	return batchReply("nextBatch", id, cur.ns, head), nil
}

func (st *store) killCursors(cmd bson.Raw) (bson.D, error) {
	ids, _ := cmd.Lookup("cursors").ArrayOK()
	values, err := ids.Values()
	if err != nil {
		return nil, err
	}
	killed, missing := []int64{}, []int64{}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, v := range values {
		id, _ := v.AsInt64OK()
		if _, ok := st.cursors[id]; ok {
			delete(st.cursors, id)
			killed = append(killed, id)
		} else {
			missing = append(missing, id)
		}
	}
	return bson.D{{Key: "cursorsKilled", Value: killed}, {Key: "cursorsNotFound", Value: missing},
		{Key: "cursorsAlive", Value: bson.A{}}, {Key: "cursorsUnknown", Value: bson.A{}}}, nil
}

func batchReply(name string, id int64, ns string, docs []bson.Raw) bson.D {
	if docs == nil {
		docs = []bson.Raw{}
	}
	return bson.D{{Key: "cursor", Value: bson.D{{Key: name, Value: docs}, {Key: "id", Value: id}, {Key: "ns", Value: ns}}}}
}

package mongotest

import "go.mongodb.org/mongo-driver/v2/bson"

// aggregate knows the stages $match (as find's filter), $skip, $limit, $count, and $group as the drivers' CountDocuments uses it.
func (st *store) aggregate(cmd bson.Raw) (bson.D, error) {
	ns, err := namespace(cmd, "aggregate")
	if err != nil {
		return nil, err
	}
	pipeline, ok := cmd.Lookup("pipeline").ArrayOK()
	if !ok {
		return nil, badValue("pipeline is missing")
	}
	stages, err := pipeline.Values()
	if err != nil {
		return nil, err
	}
	docs := st.all(ns)
	for _, v := range stages {
		stage, _ := v.DocumentOK()
		e, err := stage.IndexErr(0)
		if err != nil {
			return nil, badValue("an empty stage")
		}
		if docs, err = apply(docs, e.Key(), e.Value()); err != nil {
			return nil, err
		}
	}
	return st.first(ns, docs, number(cursorOf(cmd), "batchSize", defaultBatch), false), nil
}

func cursorOf(cmd bson.Raw) bson.Raw {
	d, _ := cmd.Lookup("cursor").DocumentOK()
	return d
}

func apply(docs []bson.Raw, stage string, arg bson.RawValue) ([]bson.Raw, error) {
	n, isNumber := arg.AsInt64OK()
	body, isDoc := arg.DocumentOK()
	name, isName := arg.StringValueOK()
	switch {
	case stage == "$match" && isDoc:
		return match(docs, body)
	case stage == "$skip" && isNumber:
		return window(docs, n, 0), nil
	case stage == "$limit" && isNumber && n > 0:
		return window(docs, 0, n), nil
	case stage == "$count" && isName:
		return count(docs, bson.D{}, name)
	case stage == "$group" && isDoc:
		// {_id: <constant>, n: {$sum: 1}}
		one, _ := body.Lookup("n", "$sum").AsInt64OK()
		id, ok := body.Lookup("_id").AsInt64OK()
		if elems, err := body.Elements(); err == nil && len(elems) == 2 && one == 1 && ok {
			return count(docs, bson.D{{Key: "_id", Value: int32(id)}}, "n")
		}
	}
	return nil, notImplemented("this use of stage " + stage)
}

// count is one document with the number of documents, or none for none, as in MongoDB.
func count(docs []bson.Raw, d bson.D, field string) ([]bson.Raw, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	raw, err := bson.Marshal(append(d, bson.E{Key: field, Value: int32(len(docs))}))
	return []bson.Raw{raw}, err
}

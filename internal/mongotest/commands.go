package mongotest

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// run carries out a command and returns its reply.
func (c *conn) run(name string, r request) bson.D {
	if name == "hello" {
		return c.hello(r)
	}
	reply, err := c.command(name, r)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = badValue(err.Error())
		}
		return e.reply()
	}
	return append(reply, bson.E{Key: "ok", Value: 1.0})
}

// command returns the reply without "ok", or an error that is usually an *Error.
func (c *conn) command(name string, r request) (bson.D, error) {
	switch name {
	case "saslStart":
		return c.saslStart(r.body)
	case "saslContinue":
		return c.saslContinue(r.body)
	case "ping":
		return bson.D{}, nil
	}
	if !c.authorized() {
		return nil, &Error{Code: CodeUnauthorized, Name: "Unauthorized", Message: "Command " + name + " requires authentication"}
	}
	if set(r.body.Lookup("startTransaction")) {
		return nil, notImplemented("startTransaction")
	}
	if err := c.srv.refuse(name, r.body); err != nil {
		return nil, err
	}
	st := &c.srv.store
	switch name {
	case "endSessions":
		return bson.D{}, nil
	case "insert":
		return st.insert(r)
	case "find":
		return st.find(r.body)
	case "aggregate":
		return st.aggregate(r.body)
	case "getMore":
		return st.getMore(r.body)
	case "killCursors":
		return st.killCursors(r.body)
	}
	return nil, &Error{Code: CodeCommandNotFound, Name: "CommandNotFound", Message: "no such command: '" + name + "'"}
}

// refuse is what a secondary says to writes, and to reads that want a primary: they have no $readPreference.
func (s *Server) refuse(name string, cmd bson.Raw) error {
	s.mu.Lock()
	secondary := s.replica != nil && s.replica.Secondary
	s.mu.Unlock()
	if !secondary {
		return nil
	}
	mode, _ := cmd.Lookup("$readPreference", "mode").StringValueOK()
	switch {
	case name == "insert":
		return &Error{Code: CodeNotWritablePrimary, Name: "NotWritablePrimary", Message: "not primary"}
	case (name == "find" || name == "aggregate") && (mode == "" || mode == "primary"):
		return &Error{Code: CodeNotPrimaryNoSecondaryOk, Name: "NotPrimaryNoSecondaryOk", Message: "not primary and secondaryOk=false"}
	}
	return nil
}

func badValue(message string) *Error {
	return &Error{Code: CodeBadValue, Name: "BadValue", Message: message}
}

func notImplemented(what string) *Error {
	return &Error{Code: CodeNotImplemented, Name: "NotImplemented", Message: what + " is not implemented by this test server"}
}

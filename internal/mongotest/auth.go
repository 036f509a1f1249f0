package mongotest

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const scramSHA256 = "SCRAM-SHA-256"

// login is a SCRAM conversation in progress. The zero login is none.
type login struct{ conversation *scram.ServerConversation }

// conversationID is the same in all logins: a connection has one conversation at a time.
const conversationID = 1

// newSCRAM derives the stored credentials of all users. It returns nil if there are none.
func newSCRAM(o Options) (*scram.Server, error) {
	if len(o.Users) == 0 {
		return nil, nil
	}
	iterations := o.Iterations
	if iterations == 0 {
		iterations = 4096
	}
	stored := map[string]scram.StoredCredentials{}
	for name, password := range o.Users {
		client, err := scram.SHA256.NewClient(name, password, "")
		if err != nil {
			return nil, err
		}
		salt := make([]byte, 28) // MongoDB's length for SCRAM-SHA-256
		rand.Read(salt)
		kf := scram.KeyFactors{Salt: string(salt), Iters: iterations}
		if stored[name], err = client.GetStoredCredentialsWithError(kf); err != nil {
			return nil, err
		}
	}
	return scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		if c, ok := stored[name]; ok {
			return c, nil
		}
		return scram.StoredCredentials{}, errors.New("no such user")
	})
}

// knows reports whether there is a user of this name, given as "db.name".
func (s *Server) knows(user string) bool {
	_, name, _ := strings.Cut(user, ".")
	_, ok := s.opts.Users[name]
	return ok
}

var errAuthentication = &Error{Code: CodeAuthenticationFailed, Name: "AuthenticationFailed", Message: "Authentication failed."}

// saslStart begins a login, replacing one that was not finished.
func (c *conn) saslStart(cmd bson.Raw) (bson.D, error) {
	c.login = login{}
	mech, _ := cmd.Lookup("mechanism").StringValueOK()
	switch {
	case mech == "SCRAM-SHA-1", c.srv.scram == nil:
		return nil, errAuthentication // nobody has credentials for that; drivers try it if a hello names no mechanism for the user
	case mech != scramSHA256:
		return nil, &Error{Code: CodeMechanismUnavailable, Name: "MechanismUnavailable", Message: "Unsupported mechanism '" + mech + "'"}
	}
	c.login.conversation = c.srv.scram.NewConversation()
	return c.saslStep(cmd)
}

// saslContinue goes on with a login.
func (c *conn) saslContinue(cmd bson.Raw) (bson.D, error) {
	if id, ok := cmd.Lookup("conversationId").AsInt64OK(); c.login.conversation == nil || !ok || id != conversationID {
		return nil, &Error{Code: 17, Name: "ProtocolError", Message: "No SASL session state found"}
	}
	return c.saslStep(cmd)
}

// saslStep is done with the client's final message: the drivers always ask for skipEmptyExchange.
func (c *conn) saslStep(cmd bson.Raw) (bson.D, error) {
	_, payload, ok := cmd.Lookup("payload").BinaryOK()
	if !ok {
		return nil, &Error{Code: CodeBadValue, Name: "BadValue", Message: "payload is missing"}
	}
	conv := c.login.conversation
	answer, err := conv.Step(string(payload))
	if err != nil {
		c.login = login{}
		return nil, errAuthentication
	}
	if conv.Done() {
		c.login = login{}
		c.edit(func(log *ConnLog) { log.User = conv.Username() })
	}
	return bson.D{
		{Key: "conversationId", Value: int32(conversationID)},
		{Key: "done", Value: conv.Done()},
		{Key: "payload", Value: []byte(answer)},
	}, nil
}

// authorized reports whether the connection may use commands that need a login.
func (c *conn) authorized() bool {
	if len(c.srv.opts.Users) == 0 {
		return true
	}
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	return c.log.User != ""
}

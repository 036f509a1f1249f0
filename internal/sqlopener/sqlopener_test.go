package sqlopener_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/connprof/connprof/internal/sqlopener"
)

// asks is a Connector, some frames deep, that notes who asked for each connect.
type asks struct {
	depth int
	said  chan bool
}

type key struct{}

func (a asks) Connect(ctx context.Context) (driver.Conn, error) {
	return a.below(context.WithValue(ctx, key{}, 1), a.depth) // as a wrapper with a span does
}

//go:noinline
func (a asks) below(ctx context.Context, depth int) (driver.Conn, error) {
	if depth > 0 {
		return a.below(ctx, depth-1)
	}
	a.said <- sqlopener.Background()
	return conn{}, nil
}

func (asks) Driver() driver.Driver { return nil }

type conn struct{}

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("none") }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errors.New("none") }

func TestTheOpenersConnectIsToldFromACallers(t *testing.T) {
	for _, depth := range []int{0, 2, 3, 4, 20} {
		a := asks{depth, make(chan bool, 2)}
		db := sql.OpenDB(a)
		db.SetMaxOpenConns(1)
		c, err := db.Conn(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if <-a.said {
			t.Errorf("depth %d: the caller's own connect is the opener's", depth)
		}
		done := make(chan error, 1)
		go func() {
			c, err := db.Conn(context.Background())
			if err == nil {
				err = c.Close()
			}
			done <- err
		}()
		for db.Stats().WaitCount == 0 {
			time.Sleep(time.Millisecond)
		}
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // the opener makes another one for who waits
		if !<-a.said {
			t.Errorf("depth %d: the opener's connect is a caller's", depth)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		db.Close()
	}
	if sqlopener.Background() {
		t.Error("nobody asked")
	}
}

// What the look costs a connect.
func BenchmarkConnect(b *testing.B) {
	for name, look := range map[string]bool{"with": true, "without": false} {
		b.Run(name, func(b *testing.B) {
			db := sql.OpenDB(plain(look))
			defer db.Close()
			db.SetMaxIdleConns(-1)
			for b.Loop() {
				c, err := db.Conn(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
		})
	}
}

type plain bool

func (p plain) Connect(context.Context) (driver.Conn, error) {
	if p {
		sqlopener.Background()
	}
	return conn{}, nil
}

func (plain) Driver() driver.Driver { return nil }

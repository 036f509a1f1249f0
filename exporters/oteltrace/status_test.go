package oteltrace

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	mongov1 "go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	driverv1 "go.mongodb.org/mongo-driver/x/mongo/driver"
)

func TestTheServersCodeIsFoundInEachDriversErrors(t *testing.T) {
	type Error struct{ error } // anyone's
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&mysql.MySQLError{Number: 1062, Message: "Duplicate entry 'bob'"}, "1062"},
		{fmt.Errorf("save: %w", &mysql.MySQLError{Number: 1045}), "1045"},
		{&pgconn.PgError{Code: "23505"}, "23505"},
		{fmt.Errorf("save: %w", &pgconn.PgError{Code: "28P01"}), "28P01"},
		{&pq.Error{Code: "40001"}, "40001"},
		{mongo.CommandError{Code: 11000}, "11000"},
		{driver.Error{Code: 59}, "59"},
		{mongov1.CommandError{Code: 11000}, "11000"},
		{driverv1.Error{Code: 59}, "59"},
		{errors.Join(errors.New("a"), driver.Error{Code: 59}), "59"},
		{driver.Error{Message: "connection closed"}, ""},
		{&pgconn.PgError{Code: "not a state"}, ""},
		{Error{errors.New("5")}, ""},
		{(*mysql.MySQLError)(nil), ""},
		{context.Canceled, ""},
		{errors.New("1062"), ""},
		{nil, ""},
	} {
		if got := statusCode(tt.err); got != tt.want {
			t.Errorf("%T: %q, want %q", tt.err, got, tt.want)
		}
	}
}

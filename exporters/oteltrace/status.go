package oteltrace

import (
	"errors"
	"reflect"
	"strconv"
)

// statusCode is db.response.status_code: what the server calls an error, "" where the driver's error doesn't tell. It is PostgreSQL's
// SQLSTATE, and MySQL's and MongoDB's error number. No driver is imported for it: PostgreSQL's errors have a method (pgconn.PgError,
// pq.Error), the others are known by their type's name and field.
func statusCode(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		if s := state.SQLState(); isState(s) {
			return s
		}
	}
	return numberOf(err, 8)
}

// isState says that s is a SQLSTATE: five digits or capital letters.
func isState(s string) bool {
	if len(s) != 5 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// numberOf finds the number in err and what it wraps, depth at most.
func numberOf(err error, depth int) string {
	for ; err != nil && depth > 0; depth-- {
		v := reflect.ValueOf(err)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			if n := numberIn(v); n != 0 {
				return strconv.FormatInt(n, 10)
			}
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				if s := numberOf(e, depth-1); s != "" {
					return s
				}
			}
			return ""
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// numberIn looks for mysql.MySQLError.Number, and for Code in driver.Error and mongo.CommandError of the MongoDB driver's versions.
func numberIn(v reflect.Value) int64 {
	switch v.Type().Name() {
	case "MySQLError":
		if f := v.FieldByName("Number"); f.IsValid() && f.CanUint() {
			return int64(f.Uint())
		}
	case "Error", "CommandError":
		if f := v.FieldByName("Code"); f.IsValid() && f.Kind() == reflect.Int32 && v.FieldByName("Labels").IsValid() {
			return f.Int()
		}
	}
	return 0
}

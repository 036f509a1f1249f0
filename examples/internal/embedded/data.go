package embedded

import (
	"fmt"
	"math/rand/v2"
)

// The data is shaped like YCSB's: a table or collection of rows with a string key and ten fields of 100 characters.
const (
	Database = "ycsb"
	Table    = "usertable" // the table in MySQL, the collection in MongoDB
	Rows     = 1000
)

const (
	fields      = 10
	fieldLength = 100
)

// Key returns the _id of row i, with i from 0 to Rows-1.
func Key(i int) string { return fmt.Sprintf("user%020d", i) }

// row is one record: the key, then the fields. The same call always gives the same text.
func row(i int) (key string, values [fields]string) {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	for f := range values {
		text := make([]byte, fieldLength)
		for n := range text {
			text[n] = byte('a' + random.IntN(26))
		}
		values[f] = string(text)
	}
	return Key(i), values
}

func fieldName(f int) string { return fmt.Sprintf("field%d", f) }

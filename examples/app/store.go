package app

import (
	"context"
	"database/sql"
)

// Store reads documents.
type Store struct{ DB *sql.DB }

// Field returns the first field of the document with the key.
func (s *Store) Field(ctx context.Context, key string) (string, error) {
	var field string
	err := s.DB.QueryRowContext(ctx, "SELECT field0 FROM usertable WHERE _id = ?", key).Scan(&field)
	return field, err
}

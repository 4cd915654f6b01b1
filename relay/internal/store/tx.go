package store

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// Update runs change inside the writer's next transaction and returns when it is flushed to disk. If change fails,
// what it did is undone and nothing else.
func (s *Store) Update(ctx context.Context, change func(tx *Tx) error) error {
	return s.w.do(ctx, &request{change: change})
}

// exec runs a statement.
func (tx *Tx) exec(text string, args ...any) error { return tx.db.Exec(text, args...).Error }

// execCount runs a statement and returns how many rows it touched.
func (tx *Tx) execCount(text string, args ...any) (int64, error) {
	r := tx.db.Exec(text, args...)
	return r.RowsAffected, r.Error
}

// take reads one row; it is [IsMissing] without any.
func (tx *Tx) take(into any, text string, args ...any) error {
	r := tx.db.Raw(text, args...).Scan(into)
	if r.Error == nil && r.RowsAffected == 0 {
		return sql.ErrNoRows
	}
	return r.Error
}

// IsMissing reports whether err says that there is no such row.
func IsMissing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, sql.ErrNoRows)
}

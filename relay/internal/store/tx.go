package store

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
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

// upsert stores a row of a table, in place of the one that has its key.
func (tx *Tx) upsert(table string, row any, key ...string) error {
	columns := make([]clause.Column, len(key))
	for i, name := range key {
		columns[i].Name = name
	}
	return tx.db.Table(table).Clauses(clause.OnConflict{Columns: columns, UpdateAll: true}).Create(row).Error
}

// changed records that the entries of a room have changed; room 0 stands for all rooms.
func (tx *Tx) changed(room int64, kind ChangeKind) {
	tx.changes = append(tx.changes, Change{Room: room, Kind: kind})
}

// IsMissing reports whether err says that there is no such row.
func IsMissing(err error) bool {
	return errors.Is(err, gorm.ErrRecordNotFound) || errors.Is(err, sql.ErrNoRows)
}

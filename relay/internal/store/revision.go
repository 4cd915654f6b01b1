package store

import (
	"context"
	"errors"

	"gorm.io/gorm"
)

// ErrStale says that another relay has changed users or applications since they were read.
var ErrStale = errors.New("another relay has changed the accounts meanwhile")

// Revision returns a number that rises whenever users or applications change. It is 0 where only one relay can change them.
func (s *Store) Revision(ctx context.Context) (n int64, err error) {
	if !s.Shared() {
		return 0, nil
	}
	return n, s.read.QueryRowContext(ctx, `SELECT n FROM revision`).Scan(&n)
}

// Know records which revision of users and applications this relay has read: what changes another is [ErrStale].
func (s *Store) Know(revision int64) { s.w.known.Store(revision) }

// Known is the revision that this relay has read or made.
func (s *Store) Known() int64 { return s.w.known.Load() }

// accounts is the database for a change of users or applications. It fails with [ErrStale] if another relay has changed them.
func (tx *Tx) accounts() *gorm.DB {
	db := tx.db.Session(&gorm.Session{})
	if !tx.w.member.Shared() || tx.revision != 0 {
		return db
	}
	var n int64
	if err := tx.db.Raw(`UPDATE revision SET n = n + 1 RETURNING n`).Scan(&n).Error; err != nil {
		_ = db.AddError(err)
	} else if known := tx.w.known.Load(); known != 0 && known != n-1 && tx.w.revision != n-1 {
		_ = db.AddError(ErrStale)
	} else {
		tx.revision, tx.w.revision = n, n
	}
	return db
}
